// Many runs of traces under what changes between them: a grid over traces, GPUs, clients' settings, seeds and
// policies.  Each point has a hash of all that decides its result, so that results are found again.
//
// Leaves out: where points are run (sim/command and the Python module decide that), and what a result does not
// depend on: the time that it took, the number of workers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/run/run.h"
#include "traces/model/trace.h"

namespace corun::sim {

/// Changes with every change of results that inputs do not show.  `sweep_test` holds it to the golden summaries.
inline constexpr int kResultsRevision = 13;

struct Point {
  std::string trace{};  // file, or a name for clients given on the command line
  std::string gpu{};    // empty: the trace's
  std::vector<std::pair<std::string, std::string>> changes{};  // "cam.rate", "80"
  std::optional<std::uint64_t> seed{};                         // empty: the trace's
  std::string duration{};                                      // "200ms"; empty: the trace's
  std::string policy{};
};

struct Grid {
  std::vector<std::string> traces, gpus, policies;
  std::vector<std::pair<std::string, std::vector<std::string>>> changes;  // "cam.rate": 50, 100
  std::vector<std::uint64_t> seeds;
  std::string duration;
};

/// `{"corun_sweep": 1, "traces": [...], ...}`.  Paths of traces start at the file.  Throws InputError.
Grid read_grid(const std::string& file);
/// "cam.rate=50,100,150" into its name and values.  Throws InputError.
std::pair<std::string, std::vector<std::string>> parse_change(const std::string& text);
/// "1..5,9".  Throws InputError.
std::vector<std::uint64_t> parse_seeds(const std::string& text);
/// All points, in the order of the grid: traces, GPUs, changes, seeds, policies, the last changing fastest.
/// Throws InputError for a grid without traces or policies.
std::vector<Point> points_of(const Grid& grid);

/// A point's trace and GPU, read and changed.  Points that differ in their policies only may share one.
class Prepared {
 public:
  using Reader = std::function<Trace(const std::string& file)>;
  /// Throws InputError.
  Prepared(const Point& point, const Reader& read);

  /// Of the trace's content, the GPU's description, the policy and kResultsRevision: 32 hexadecimal digits, the same
  /// on every machine, whatever the file is called.
  std::string hash(const std::string& policy) const;
  /// The point's line: hash, what it is, and the result or the error with which it ended.
  std::string run(const Point& point, const std::function<void()>& interrupt = {});

  /// Whether points share what this class holds.
  static bool same(const Point& a, const Point& b);

 private:
  Trace trace_;
  Gpu gpu_;
  std::string content_;  // canonical
  std::string carried_;  // the note that the kernels' times are of another card
  Memory memory_;
};

/// The line of a point that cannot be prepared; its hash is of what was asked for.
std::string line_of_error(const Point& point, const std::string& hash, const std::exception& error);
/// A line that was written before, under what the point is called now.
std::string line_again(const Point& point, const std::string& known);
/// Of what was asked for, not of the files' content.
std::string hash_of_request(const Point& point);

struct SweepOptions {
  unsigned threads = 0;
  std::function<std::optional<std::string>(const std::string& hash)> known;  // a line that is there already
  std::function<void(std::size_t index, const std::string& line, bool is_new)> done;  // one at a time, in any order
  std::function<void()> interrupt;                                                    // may throw
};

/// Runs what is not known.  Lines do not depend on the number of threads.
void sweep(const std::vector<Point>& points, const Prepared::Reader& read, const SweepOptions& options);

}  // namespace corun::sim
