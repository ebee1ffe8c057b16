// The picture of SMs over time.
#include "traces/timeline/occupancy_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <ostream>
#include <string_view>
#include <tuple>

#include "traces/timeline/csv.h"

namespace corun {
namespace {

constexpr std::size_t kMostBytes = 290'000;
constexpr std::size_t kFewestBuckets = 40;
constexpr int kLeft = 58, kRight = 22, kWidth = 1000;
constexpr int kPlotWidth = kWidth - kLeft - kRight;
constexpr std::size_t kLegendClients = 24;
constexpr std::size_t kDataBuckets = 128;  // of write_csv
constexpr std::size_t kUnitsOfHighRow = 8;

// Distinguishable with the common forms of colour blindness for as long as there are few.
constexpr std::array<const char*, 12> kColours = {"#1f77b4", "#e8710a", "#2a9d5c", "#c2185b",
                                                  "#7b4fc9", "#8c6d1f", "#0097a7", "#d43d2a",
                                                  "#5c6bc0", "#7cb342", "#ad1457", "#546e7a"};
constexpr std::array<const char*, 6> kOpacity = {"0", ".3", ".47", ".64", ".82", "1"};
constexpr std::size_t kLevels = kOpacity.size() - 1;

const char* colour_of(std::size_t client) { return kColours[client % kColours.size()]; }

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20) out += c;
    }
  }
  return out;
}

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string shortened(std::string_view text, std::size_t most) {
  if (characters(text) <= most) return std::string(text);
  std::size_t end = 0, kept = 0;
  while (kept < most) kept += (text[++end] & 0xC0) != 0x80 ? 1 : 0;
  return std::string(text.substr(0, end)) + "…";
}

/// Warp-time of each client in each row and bucket.
struct Grid {
  std::size_t sms = 0, sms_a_row = 1, buckets = 0;
  Time bucket{};
  std::vector<std::vector<std::uint64_t>> warp_ps;  // by client (may be empty), then row * buckets + bucket

  std::size_t rows() const { return (sms + sms_a_row - 1) / sms_a_row; }
  std::size_t sms_in(std::size_t row) const { return std::min(sms_a_row, sms - row * sms_a_row); }

  /// Each `by_rows` rows and each `by_buckets` buckets taken together.
  Grid coarser(std::size_t by_rows, std::size_t by_buckets) const {
    Grid out{sms, sms_a_row * by_rows, (buckets + by_buckets - 1) / by_buckets,
             bucket * static_cast<std::int64_t>(by_buckets),
             std::vector<std::vector<std::uint64_t>>(warp_ps.size())};
    for (std::size_t c = 0; c < warp_ps.size(); ++c) {
      if (warp_ps[c].empty()) continue;
      out.warp_ps[c].resize(out.rows() * out.buckets);
      for (std::size_t row = 0; row < rows(); ++row)
        for (std::size_t b = 0; b < buckets; ++b)
          out.warp_ps[c][row / by_rows * out.buckets + b / by_buckets] += warp_ps[c][row * buckets + b];
    }
    return out;
  }
};

/// A client's part of a row: `height` units from `top`.
struct Band {
  std::size_t client = 0, level = 0, top = 0, height = 0;
  auto operator<=>(const Band&) const = default;
};
struct Rectangle {
  std::size_t x = 0, width = 0, y = 0, height = 0;
};

/// Divides a row of `units` among the clients by their warp-time (largest remainder), in the order of
/// clients; in low rows every other one the other way round, so that the same colours meet and do not blur.
/// `capacity_ps`: the warp-time of a full SM.
std::vector<Band> bands_of(const Grid& grid, std::size_t row, std::size_t bucket, double capacity_ps,
                           std::size_t units) {
  std::vector<Band> bands;
  std::vector<std::uint64_t> rest;
  std::uint64_t sum = 0;
  const std::size_t at = row * grid.buckets + bucket;
  for (const auto& client : grid.warp_ps)
    if (!client.empty()) sum += client[at];
  if (sum == 0) return bands;

  const double occupancy = std::min(1.0, static_cast<double>(sum) / capacity_ps);
  const auto level = static_cast<std::size_t>(std::ceil(std::sqrt(occupancy) * kLevels));
  std::size_t left = units;
  for (std::size_t c = 0; c < grid.warp_ps.size(); ++c) {
    if (grid.warp_ps[c].empty() || grid.warp_ps[c][at] == 0) continue;
    const std::uint64_t part = grid.warp_ps[c][at] * units;
    bands.push_back({c, std::clamp<std::size_t>(level, 1, kLevels), 0, part / sum});
    rest.push_back(part % sum);
    left -= part / sum;
  }
  for (; left > 0; --left) {
    const auto most = std::ranges::max_element(rest) - rest.begin();
    ++bands[static_cast<std::size_t>(most)].height;
    rest[static_cast<std::size_t>(most)] = 0;
  }
  std::erase_if(bands, [](const Band& b) { return b.height == 0; });
  if (units < kUnitsOfHighRow && row % 2 == 1) std::ranges::reverse(bands);
  std::size_t top = 0;
  for (Band& b : bands) {
    b.top = top;
    top += b.height;
  }
  return bands;
}

using Shapes = std::map<std::pair<std::size_t, std::size_t>, std::vector<Rectangle>>;  // by client and level

/// Rectangles in units of a bucket and of an SM's height; what looks the same is one.
Shapes shapes_of(const Grid& grid, std::size_t units_an_sm, std::uint32_t max_warps, Time length) {
  Shapes shapes;
  using Run = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;  // x, width, client, level
  std::map<Run, std::size_t> above;  // runs of the row above: their index in shapes
  for (std::size_t row = 0; row < grid.rows(); ++row) {
    const std::size_t units = grid.sms_in(row) * units_an_sm;
    const double warps = static_cast<double>(grid.sms_in(row)) * max_warps;
    std::map<Run, std::size_t> here;
    std::map<Band, std::size_t> open;  // to the bucket in which it began
    for (std::size_t bucket = 0; bucket <= grid.buckets; ++bucket) {
      std::vector<Band> bands;
      if (bucket < grid.buckets) {
        const Time start = grid.bucket * static_cast<std::int64_t>(bucket);
        const Time span = std::min(grid.bucket, length - start);
        bands = bands_of(grid, row, bucket, static_cast<double>(span.count()) * warps, units);
      }
      for (auto run = open.begin(); run != open.end();) {
        const Band& band = run->first;
        if (std::ranges::find(bands, band) != bands.end()) {
          ++run;
          continue;
        }
        const std::size_t x = run->second, width = bucket - x,
                          y = row * grid.sms_a_row * units_an_sm + band.top;
        auto& rectangles = shapes[{band.client, band.level}];
        const Run key{x, width, band.client, band.level};
        const auto same = above.find(key);
        if (same != above.end() && rectangles[same->second].y + rectangles[same->second].height == y) {
          rectangles[same->second].height += band.height;
          here.insert(*same);
        } else {
          here.emplace(key, rectangles.size());
          rectangles.push_back({x, width, y, band.height});
        }
        run = open.erase(run);
      }
      for (const Band& band : bands) open.try_emplace(band, bucket);
    }
    above = std::move(here);
  }
  return shapes;
}

/// Paths of the rectangles, vertical coordinates doubled.  Where many have one height they are strokes of
/// that width, which takes half the bytes.
std::string paths_of(const std::vector<Rectangle>& rectangles, const char* opacity) {
  constexpr std::size_t kMany = 6;
  std::map<std::size_t, std::vector<Rectangle>> by_height;
  for (const Rectangle& r : rectangles) by_height[r.height].push_back(r);

  std::string out, rest;
  std::int64_t rest_x = 0, rest_y = 0;
  const auto move = [](std::string& d, std::int64_t dx, std::int64_t dy) {
    fmt::format_to(std::back_inserter(d), "m{}{}{}", dx, dy < 0 ? "" : " ", dy);
  };
  for (const auto& [height, same] : by_height) {
    if (same.size() < kMany) {
      for (const Rectangle& r : same) {
        const auto x = static_cast<std::int64_t>(r.x), y = static_cast<std::int64_t>(2 * r.y);
        move(rest, x - rest_x, y - rest_y);
        fmt::format_to(std::back_inserter(rest), "h{}v{}h-{}z", r.width, 2 * height, r.width);
        rest_x = x;
        rest_y = y;
      }
      continue;
    }
    std::string d;
    std::int64_t x = 0, y = 0;
    for (const Rectangle& r : same) {
      const auto to_x = static_cast<std::int64_t>(r.x), to_y = static_cast<std::int64_t>(2 * r.y + height);
      move(d, to_x - x, to_y - y);
      fmt::format_to(std::back_inserter(d), "h{}", r.width);
      x = to_x + static_cast<std::int64_t>(r.width);
      y = to_y;
    }
    out +=
        fmt::format("<path stroke-width=\"{}\" stroke-opacity=\"{}\" d=\"{}\"/>\n", 2 * height, opacity, d);
  }
  if (!rest.empty()) out += fmt::format("<path fill-opacity=\"{}\" d=\"{}\"/>\n", opacity, rest);
  return out;
}

struct Unit {
  const char* name;
  std::int64_t ps;
};

Unit unit_for(Time length) {
  constexpr std::array<Unit, 4> units = {Unit{"s", 1'000'000'000'000}, Unit{"ms", 1'000'000'000},
                                         Unit{"µs", 1'000'000}, Unit{"ns", 1'000}};
  for (const Unit& u : units)
    if (length.count() >= 2 * u.ps) return u;
  return units.back();
}

/// 1, 2 or 5 times a power of ten, about eight to a length.
std::int64_t tick_step(Time length) {
  std::int64_t step = 1;
  while (step * 10 <= length.count() / 8) step *= 10;
  for (std::int64_t factor : {1, 2, 5, 10})
    if (step * factor * 9 >= length.count()) return step * factor;
  return step * 10;
}

/// Pixels of an SM's row, and into how many units its height is divided, whole pixels each.
struct RowHeight {
  int pixels = 0;
  std::size_t units = 0;
};
RowHeight row_height(std::size_t sms) {
  for (int pixels : {24, 16, 8, 6, 5, 4})
    if (static_cast<std::size_t>(pixels) * sms <= 576)
      return {pixels, std::min<std::size_t>(static_cast<std::size_t>(pixels), kUnitsOfHighRow)};
  return {3, 3};
}

}  // namespace

OccupancySink::OccupancySink(const Trace& trace, const Gpu& gpu, OccupancyOptions options)
    : trace_(trace), gpu_(gpu), options_(std::move(options)), warp_ps_(trace.clients.size()) {
  for (const Kernel& kernel : trace_.kernels)
    warps_.push_back((kernel.threads_per_block() + gpu_.sm.warp_size - 1) / gpu_.sm.warp_size);
}

void OccupancySink::halve() {
  for (auto& cells : warp_ps_) {
    for (std::size_t row = 0; row < cells.size(); row += kBuckets) {
      for (std::size_t b = 0; b < kBuckets / 2; ++b)
        cells[row + b] = cells[row + 2 * b] + cells[row + 2 * b + 1];
      std::fill_n(cells.begin() + static_cast<std::ptrdiff_t>(row + kBuckets / 2), kBuckets / 2, 0);
    }
  }
  bucket_ *= 2;
}

void OccupancySink::record(std::span<const BlockRecord> blocks) {
  for (const BlockRecord& block : blocks) {
    const Time start = std::max(block.start, options_.begin) - options_.begin;
    const Time end = std::min(block.end, options_.end) - options_.begin;
    if (start >= end) continue;
    while (end > bucket_ * static_cast<std::int64_t>(kBuckets)) halve();
    last_ = std::max(last_, end);
    auto& cells = warp_ps_[block.client.value];
    if (cells.empty()) cells.resize(std::size_t{gpu_.sms} * kBuckets);
    for (std::int64_t b = start / bucket_; b * bucket_ < end; ++b) {
      const Time inside = std::min(end, (b + 1) * bucket_) - std::max(start, b * bucket_);
      cells[block.sm.value * kBuckets + static_cast<std::size_t>(b)] +=
          static_cast<std::uint64_t>(inside.count()) * warps_[block.kernel.value];
    }
  }
}

void OccupancySink::write_csv(std::ostream& out) const {
  out << "client,sm,from_ns,to_ns,warps\n";
  const auto used = static_cast<std::size_t>((last_.count() + bucket_.count() - 1) / bucket_.count());
  const std::size_t together = (used + kDataBuckets - 1) / kDataBuckets;
  for (std::size_t c = 0; c < warp_ps_.size(); ++c)
    for (std::size_t sm = 0; !warp_ps_[c].empty() && sm < gpu_.sms; ++sm)
      for (std::size_t b = 0; b < used; b += together) {
        const std::size_t end = std::min(used, b + together);
        std::uint64_t sum = 0;
        for (std::size_t k = b; k < end; ++k) sum += warp_ps_[c][sm * kBuckets + k];
        if (sum == 0) continue;
        const auto at = [&](std::size_t bucket) {
          return static_cast<double>((options_.begin + bucket_ * static_cast<std::int64_t>(bucket)).count()) / 1e3;
        };
        const double length = static_cast<double>(bucket_.count()) * static_cast<double>(end - b);
        out << fmt::format("{},{},{:.0f},{:.0f},{:.4g}\n", csv_field(trace_.clients[c].name), sm, at(b), at(end),
                           static_cast<double>(sum) / length);
      }
}

void OccupancySink::write(std::ostream& out) const {
  const RowHeight row = row_height(gpu_.sms);
  const Time length = std::max(last_, Time{1});

  Grid grid{gpu_.sms, 1, static_cast<std::size_t>((length + bucket_ - Time{1}) / bucket_), bucket_, {}};
  for (const auto& cells : warp_ps_) {
    auto& used = grid.warp_ps.emplace_back();
    for (std::size_t first = 0; first < cells.size(); first += kBuckets)
      used.insert(used.end(), cells.begin() + static_cast<std::ptrdiff_t>(first),
                  cells.begin() + static_cast<std::ptrdiff_t>(first + grid.buckets));
  }
  std::vector<std::string> clients;  // the shapes of each
  while (true) {
    clients.assign(trace_.clients.size(), {});
    std::size_t bytes = 0;
    for (const auto& [key, rectangles] : shapes_of(grid, row.units, gpu_.sm.max_warps, length))
      clients[key.first] += paths_of(rectangles, kOpacity[key.second]);
    for (const std::string& shapes : clients) bytes += shapes.size();
    if (bytes <= kMostBytes || grid.buckets <= kFewestBuckets) break;
    const bool low_rows = grid.sms_a_row * row.units < kUnitsOfHighRow;
    grid = low_rows ? grid.coarser(2, 1) : grid.coarser(1, 2);
  }

  // The legend's rows come first: they say where the plot starts.
  std::string legend;
  int legend_x = kLeft, legend_y = 72;
  const auto entry = [&](const char* colour, const std::string& name) {
    const int width = 30 + static_cast<int>(characters(name)) * 7;
    if (legend_x > kLeft && legend_x + width > kWidth - kRight) {
      legend_x = kLeft;
      legend_y += 20;
    }
    if (colour != nullptr)
      legend += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{}\"/>\n",
                            legend_x, legend_y - 10, colour);
    legend += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", legend_x + (colour != nullptr ? 18 : 0),
                          legend_y, escaped(name));
    legend_x += width;
  };
  for (std::size_t c = 0; c < std::min(kLegendClients, trace_.clients.size()); ++c)
    entry(colour_of(c), shortened(trace_.clients[c].name, 32));
  if (trace_.clients.size() > kLegendClients)
    entry(nullptr, fmt::format("+{} more", trace_.clients.size() - kLegendClients));

  const int top = legend_y + 20;
  const int plot_height = row.pixels * static_cast<int>(gpu_.sms);
  const int bottom = top + plot_height;
  const std::string title = escaped(shortened(options_.title.empty() ? trace_.name : options_.title, 90));
  const std::string subtitle = escaped(shortened(
      options_.subtitle.empty() ? (gpu_.product.empty() ? gpu_.name : gpu_.product) : options_.subtitle, 90));

  out << fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "role=\"img\" "
      "font-family=\"system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif\" font-size=\"12\" "
      "fill=\"#3c4250\">\n"
      "<title>{2}: which client's blocks ran on which SM</title>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n"
      "<text x=\"{3}\" y=\"30\" font-size=\"18\" font-weight=\"600\" fill=\"#1b1f2a\">{2}</text>\n"
      "<text x=\"{3}\" y=\"49\" fill=\"#6b7280\">{4}</text>\n{5}",
      kWidth, bottom + 52, title, kLeft, subtitle, legend);

  // Key of the depth of colour
  int key_x = kWidth - kRight - 148;
  out << fmt::format(
      "<text x=\"{}\" y=\"30\" text-anchor=\"end\" fill=\"#6b7280\">warp places in use</text>\n", key_x - 8);
  for (std::size_t level = 1; level <= kLevels; ++level, key_x += 20)
    out << fmt::format(
        "<rect x=\"{}\" y=\"20\" width=\"20\" height=\"12\" fill=\"#3c4250\" fill-opacity=\"{}\"/>\n", key_x,
        kOpacity[level]);
  out << fmt::format("<text x=\"{}\" y=\"30\" text-anchor=\"end\" fill=\"#6b7280\">100 %</text>\n",
                     kWidth - kRight);

  out << fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#f4f5f7\"/>\n", kLeft, top,
                     kPlotWidth, plot_height);
  out << fmt::format(
      "<g transform=\"translate({} {}) scale({:.6f} {:.6f})\" shape-rendering=\"crispEdges\">\n", kLeft, top,
      kPlotWidth * (static_cast<double>(grid.bucket.count()) / static_cast<double>(length.count())),
      row.pixels / (2.0 * static_cast<double>(row.units)));
  // The last bucket may reach past the end.
  out << fmt::format("<clipPath id=\"plot\"><rect width=\"{:.6f}\" height=\"{}\"/></clipPath>\n",
                     static_cast<double>(length.count()) / static_cast<double>(grid.bucket.count()),
                     2 * row.units * gpu_.sms);
  for (std::size_t c = 0; c < clients.size(); ++c)
    if (!clients[c].empty())
      out << fmt::format(
          "<g clip-path=\"url(#plot)\" fill=\"{0}\" stroke=\"{0}\" "
          "stroke-width=\"0\"><title>{1}</title>\n{2}</g>\n",
          colour_of(c), escaped(trace_.clients[c].name), clients[c]);
  out << "</g>\n";

  if (row.pixels >= 8) {
    out << "<path stroke=\"#fff\" stroke-width=\"1\" d=\"";
    for (std::uint32_t sm = 1; sm < gpu_.sms; ++sm)
      out << fmt::format("M{} {}h{}", kLeft, top + static_cast<int>(sm) * row.pixels, kPlotWidth);
    out << "\"/>\n";
  }

  // Axes
  const Unit unit = unit_for(length);
  const std::int64_t step = tick_step(length), begin = options_.begin.count();
  out << "<g stroke=\"#1b1f2a\" stroke-opacity=\".13\">\n";
  std::string labels;
  for (std::int64_t at = (begin + step - 1) / step * step; at <= begin + length.count(); at += step) {
    const double x =
        kLeft + kPlotWidth * (static_cast<double>(at - begin) / static_cast<double>(length.count()));
    out << fmt::format("<path d=\"M{:.1f} {}v{}\"/>\n", x, top, plot_height + 5);
    labels += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{:.6g}</text>\n", x, bottom + 18,
                          static_cast<double>(at) / static_cast<double>(unit.ps));
  }
  out << fmt::format(
      "</g>\n<g text-anchor=\"middle\">\n{}<text x=\"{}\" y=\"{}\" fill=\"#6b7280\">time ({})</text>\n</g>\n",
      labels, kLeft + kPlotWidth / 2, bottom + 40, unit.name);
  std::uint32_t every = 1;
  while (static_cast<int>(every) * row.pixels < 16) every *= 2;
  out << "<g text-anchor=\"end\" font-size=\"11\">\n";
  for (std::uint32_t sm = 0; sm < gpu_.sms; sm += every)
    out << fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", kLeft - 7,
                       top + static_cast<int>(sm) * row.pixels + row.pixels / 2 + 4, sm);
  out << fmt::format(
      "</g>\n<text transform=\"translate(17 {}) rotate(-90)\" text-anchor=\"middle\" fill=\"#6b7280\">SM{}"
      "</text>\n",
      top + plot_height / 2, grid.sms_a_row > 1 ? fmt::format(" ({} a row)", grid.sms_a_row) : "");
  if (last_ == Time{})
    out << fmt::format(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" font-size=\"14\">no block ran</text>\n",
        kLeft + kPlotWidth / 2, top + plot_height / 2);
  out << fmt::format(
      "<rect x=\"{}.5\" y=\"{}.5\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#c4c9d4\"/>\n</svg>\n",
      kLeft - 1, top - 1, kPlotWidth + 1, plot_height + 1);
}

}  // namespace corun
