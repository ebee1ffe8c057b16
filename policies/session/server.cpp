#include "policies/session/server.h"

#include <algorithm>

namespace corun {

Server::Server(const Client& client, const Program& merged, std::span<const Kernel> kernels)
    : serving_(*client.serving),
      program_(merged),
      times_(serving_, merged, kernels),
      next_sequence_(client.replica ? client.replica->number : 0),
      among_(client.replica ? client.replica->among : 1) {
  if (serving_.prefix_cache && serving_.prefix_block != 0) prefixes_.emplace(*serving_.prefix_cache, serving_.prefix_block);
}

Time Server::next(Time from) const {
  if (!batch_.empty()) return from;
  return next_sequence_ >= serving_.sequences.size() ? kNever : std::max(from, serving_.sequences[next_sequence_].at);
}

std::pair<std::size_t, std::size_t> Server::begin(Time now) {
  const auto& all = serving_.sequences;
  const bool reading = !batch_.empty() && batch_.back().read < all[batch_.back().index].prompt;
  if (!reading && batch_.size() < serving_.most_at_once && next_sequence_ < all.size() && all[next_sequence_].at <= now) {
    batch_.push_back({next_sequence_, 0, 0, Time{}, SequenceRecord{{}, next_sequence_, all[next_sequence_].at, kNever, kNever, {}}});
    if (prefixes_) {
      Running& begun = batch_.back();
      begun.read = begun.record.cached = prefixes_->kept(all[next_sequence_].blocks, all[next_sequence_].prompt);
    }
    next_sequence_ += among_;
  }
  const Running& last = batch_.back();
  const std::uint32_t unread = all[last.index].prompt - last.read;
  if (unread == 0) {
    reads_ = 0;
    step_ = decode();
  } else {
    reads_ = std::min(unread, times_.largest_prompt());
    step_ = times_.prompt(reads_, last.read);
  }
  return range();
}

std::vector<SequenceRecord> Server::ended(Time now) {
  const auto token = [&](Running& sequence) {
    if (sequence.generated++ == 0)
      sequence.record.first_token = now;
    else
      sequence.record.gaps.push_back(now - sequence.last_token);
    sequence.last_token = now;
    sequence.record.uncaptured += reads_ == 0 && step_.uncaptured;
  };
  if (reads_ != 0) {
    Running& last = batch_.back();
    last.read += reads_;
    if (const Sequence& of = serving_.sequences[last.index]; last.read == of.prompt) {
      token(last);  // the prompt's last position gives the first
      if (prefixes_) prefixes_->keep(of.blocks, of.prompt);
    }
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

StepTimes::Choice Server::decode() const {
  std::uint64_t tokens = 0, longest = 0;
  for (const Running& s : batch_) {
    const std::uint64_t context = std::uint64_t{serving_.sequences[s.index].prompt} + s.generated;
    tokens += context;
    longest = std::max(longest, context);
  }
  const std::uint64_t context = serving_.padded ? longest : (tokens + batch_.size() - 1) / batch_.size();
  return times_.decode(static_cast<std::uint32_t>(batch_.size()), static_cast<std::uint32_t>(context));
}

std::pair<std::size_t, std::size_t> Server::range() const {
  const auto& parts = program_.parts;
  const std::size_t step = step_.program;
  return {parts[step].value, step + 1 < parts.size() ? parts[step + 1].value : program_.ops.size()};
}

}  // namespace corun
