#include "policies/session/arrivals.h"

#include <boost/random/seed_seq.hpp>
#include <vector>

namespace corun {
namespace {

template <class... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Match(Cases...) -> Match<Cases...>;  // clang 16 needs it said

std::vector<std::uint32_t> seed_words(const Client& client, std::uint64_t seed) {
  const auto* poisson = std::get_if<Poisson>(&client.arrivals);
  const std::uint64_t own = poisson ? poisson->seed : 0;
  std::vector<std::uint32_t> words{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                                   static_cast<std::uint32_t>(own), static_cast<std::uint32_t>(own >> 32)};
  for (char c : client.replica ? client.replica->of : client.name) words.push_back(static_cast<unsigned char>(c));
  return words;
}

}  // namespace

ArrivalProcess::ArrivalProcess(const Client& client, std::uint64_t seed)
    : arrivals_(client.arrivals), among_(client.replica ? client.replica->among : 1) {
  const auto words = seed_words(client, seed);
  boost::random::seed_seq sequence(words.begin(), words.end());
  engine_.seed(sequence);
  if (const auto* poisson = std::get_if<Poisson>(&arrivals_)) {
    gap_s_ = boost::random::exponential_distribution<double>(poisson->rate_per_s);
    next_ = Time{};
  }
  for (std::uint32_t dealt = 0; dealt <= (client.replica ? client.replica->number : 0); ++dealt) draw();
}

void ArrivalProcess::advance() {
  for (std::uint32_t dealt = 0; dealt < among_; ++dealt) draw();
}

void ArrivalProcess::draw() {
  next_ = std::visit(
      Match{[](const ClosedLoop&) { return kNever; },
            [&](const Periodic& p) { return p.offset + p.period * static_cast<std::int64_t>(count_); },
            [&](const Poisson&) { return next_ + from_ns(gap_s_(engine_) * 1e9); },
            [&](const ExplicitTimes& e) { return count_ < e.times.size() ? e.times[count_] : kNever; },
            [&](const Once& once) { return count_ == 0 ? once.at : kNever; }},
      arrivals_);
  ++count_;
}

}  // namespace corun
