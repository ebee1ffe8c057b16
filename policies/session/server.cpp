#include "policies/session/server.h"

#include <algorithm>
#include <cassert>

namespace corun {

Server::Server(const Serving& serving, const Program& merged) : serving_(serving), program_(merged) {
  assert(merged.parts.size() == serving.steps.size());
}

Time Server::next(Time from) const {
  if (!batch_.empty()) return from;
  return next_sequence_ == serving_.sequences.size() ? kNever : std::max(from, serving_.sequences[next_sequence_].at);
}

std::pair<std::size_t, std::size_t> Server::begin(Time now) {
  const auto& all = serving_.sequences;
  const bool reading = !batch_.empty() && batch_.back().read < all[batch_.back().index].prompt;
  if (!reading && batch_.size() < serving_.most_at_once && next_sequence_ < all.size() && all[next_sequence_].at <= now) {
    batch_.push_back({next_sequence_, 0, 0, Time{}, SequenceRecord{{}, next_sequence_, all[next_sequence_].at, kNever, kNever, {}}});
    ++next_sequence_;
  }
  const Running& last = batch_.back();
  const std::uint32_t unread = all[last.index].prompt - last.read;
  if (unread == 0) {
    reads_ = 0;
    return range(decode_step());
  }
  const std::size_t step = prefill_step(unread);
  reads_ = std::min(unread, serving_.steps[step].tokens);
  return range(step);
}

std::vector<SequenceRecord> Server::ended(Time now) {
  const auto token = [&](Running& sequence) {
    if (sequence.generated++ == 0)
      sequence.record.first_token = now;
    else
      sequence.record.gaps.push_back(now - sequence.last_token);
    sequence.last_token = now;
  };
  if (reads_ != 0) {
    Running& last = batch_.back();
    last.read += reads_;
    if (last.read == serving_.sequences[last.index].prompt) token(last);  // the prompt's last position gives the first
  } else {
    std::for_each(batch_.begin(), batch_.end(), token);
  }
  std::vector<SequenceRecord> done;
  std::erase_if(batch_, [&](Running& sequence) {
    if (sequence.generated < serving_.sequences[sequence.index].generated) return false;
    sequence.record.finished = now;
    done.push_back(std::move(sequence.record));
    return true;
  });
  return done;
}

std::vector<SequenceRecord> Server::unfinished() const {
  std::vector<SequenceRecord> left;
  for (const Running& sequence : batch_) left.push_back(sequence.record);
  return left;
}

std::size_t Server::decode_step() const {
  std::uint64_t tokens = 0;
  for (const Running& s : batch_) tokens += serving_.sequences[s.index].prompt + s.generated;
  const auto batch = static_cast<std::uint32_t>(batch_.size());
  const auto context = static_cast<std::uint32_t>((tokens + batch - 1) / batch);
  // What does not fit comes behind all that does, the largest first.
  const auto badness = [](std::uint32_t has, std::uint32_t wanted) {
    return has >= wanted ? std::pair(false, static_cast<std::int64_t>(has)) : std::pair(true, -static_cast<std::int64_t>(has));
  };
  std::size_t best = serving_.steps.size();
  const auto rank = [&](const ServingStep& s) { return std::pair(badness(s.batch, batch), badness(s.context, context)); };
  for (std::size_t i = 0; i < serving_.steps.size(); ++i)
    if (serving_.steps[i].tokens == 0 && (best == serving_.steps.size() || rank(serving_.steps[i]) < rank(serving_.steps[best])))
      best = i;
  return best;
}

std::size_t Server::prefill_step(std::uint32_t tokens) const {
  std::size_t best = serving_.steps.size();
  for (std::size_t i = 0; i < serving_.steps.size(); ++i) {
    const std::uint32_t has = serving_.steps[i].tokens;
    if (has == 0) continue;
    const std::uint32_t so_far = best == serving_.steps.size() ? 0 : serving_.steps[best].tokens;
    if (so_far == 0 || (so_far < tokens ? has > so_far : has >= tokens && has < so_far)) best = i;
  }
  return best;
}

std::pair<std::size_t, std::size_t> Server::range(std::size_t step) const {
  const auto& parts = program_.parts;
  return {parts[step].value, step + 1 < parts.size() ? parts[step + 1].value : program_.ops.size()};
}

}  // namespace corun
