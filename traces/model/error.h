// The one error for bad input: which file, where in it, what was expected, what to do.  The command prints it
// and exits with code 2.
#pragma once

#include <stdexcept>
#include <string>

namespace corun {

class InputError : public std::runtime_error {
 public:
  /// `file` may be empty (command line).  `place`: a JSON pointer ("/kernels/3/grid"), a "line 7, column 2",
  /// or empty.
  InputError(std::string file, std::string place, std::string problem, std::string remedy);

  const std::string& file() const { return file_; }
  const std::string& place() const { return place_; }
  const std::string& problem() const { return problem_; }
  const std::string& remedy() const { return remedy_; }

 private:
  std::string file_, place_, problem_, remedy_;
};

}  // namespace corun
