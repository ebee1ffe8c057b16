#include "sim/stages/loss_meter.h"

#include <algorithm>

#include <boost/container/static_vector.hpp>

#include "sim/stages/block_row.h"
#include "traces/model/expects.h"

namespace corun::sim {
namespace {

Met met_by_itself(const BlockLoad& load, double blocks, double sms, const MemoryLimits& limits) {
  const Contender one{&load, blocks, sms, 0, 0};
  Met met;
  meet({&one, 1}, limits, {&met, 1});
  return met;
}

/// `ran` by shares; what they leave is `alone` and, beyond that, for want of places.
RunningParts divided(Time ran, const LostShares& shares, Time alone) {
  const auto part = [&](std::size_t resource) {
    return Time{static_cast<std::int64_t>(static_cast<double>(ran.count()) * shares[resource])};
  };
  RunningParts parts;
  parts.issue = part(kAtIssue), parts.pipes = part(kAtPipes), parts.l2 = part(kAtL2), parts.dram = part(kAtDram);
  parts.clock = part(kAtClock);
  const Time left = ran - parts.sum();
  parts.alone = alone > Time{} ? std::min(alone, left) : left;
  parts.places = left - parts.alone;
  return parts;
}

}  // namespace

LossMeter::LossMeter(const Gpu& gpu) : limits_(limits_of(gpu)), sms_(gpu.sms) {}

/// Other numbers for what it meets, so that what was known for the old ones is not found.
void LossMeter::number(Launch& launch) { launch.serial = last_serial_ += 2; }

void LossMeter::began(WorkId id, const Work& work) {
  if (id.value >= launches_.size()) launches_.resize(id.value + 1);
  Launch& launch = launches_[id.value];
  launch = {};
  launch.load = work.load;
  if (!work.load.contends()) return;
  const BlockLoad& load = launch.load;
  launch.whole = met_by_itself(load, load.extent.blocks_alone(), load.extent.sms_alone(), limits_);
  launch.alone = launch.beside = launch.whole;
  number(launch);
}

void LossMeter::first_block(WorkId id, Time now) { launches_[id.value].started = now; }

void LossMeter::judged(std::span<const WorkId> works, std::span<const Contender> contenders) {
  CORUN_EXPECTS(works.size() == contenders.size());
  boost::container::small_vector<Met, 16> met(contenders.size());
  meet(contenders, limits_, {met.data(), met.size()});
  for (std::size_t i = 0; i < works.size(); ++i) {
    Launch& launch = launches_[works[i].value];
    const Met alone = contenders.size() == 1
                          ? met[i]
                          : met_by_itself(launch.load, contenders[i].blocks, contenders[i].sms, limits_);
    if (launch.alone == alone && launch.beside == met[i]) continue;
    launch.alone = alone, launch.beside = met[i];
    number(launch);
  }
}

/// Its residents have been there until now.
void LossMeter::pass(Sm& sm, std::int64_t now) {
  CORUN_EXPECTS(now >= sm.since);
  const auto span = static_cast<double>(now - sm.since);
  sm.since = now;
  if (span <= 0) return;
  for (const Resident& r : sm.residents) {
    Launch& launch = launches_[r.work.value];
    launch.time += span * r.count;
    for (std::size_t i = 0; i < kSharedResources; ++i) launch.lost[i] += span * r.count * r.shares[i];
  }
}

void LossMeter::rated(std::uint32_t at, std::int64_t now, std::span<const Row> rows, std::uint32_t apart,
                      bool contended) {
  Sm& sm = sms_[at];
  pass(sm, now);
  sm.residents.clear();
  boost::container::static_vector<Sharer, kMostBlocks> sharers;
  Company company;
  company.apart = apart;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const Launch& launch = launches_[row.work.value];
    sm.residents.push_back({row.work, row.count, {}});
    sharers.push_back({&launch.load, row.count, row.judged ? launch.alone : launch.whole,
                       row.judged ? launch.beside : launch.whole});
    if (i >= company.serials.size()) continue;
    company.serials[i] = launch.serial - (row.judged ? 0 : 1);
    company.counts[i] = row.count;
  }
  if (!contended || rows.empty()) return;
  const std::span<const Sharer> all{sharers.data(), sharers.size()};
  if (rows.size() > company.serials.size()) {  // hardly any company of more comes again
    for (std::size_t i = 0; i < rows.size(); ++i) sm.residents[i].shares = lost_shares(all, i, apart, limits_);
    return;
  }
  std::uint64_t bits = std::uint64_t{company.serials[0]} << 32 | company.serials[1];
  bits = bits * 0xff51afd7ed558ccdu + (company.counts[0] << 16 | company.counts[1] << 4 | apart);
  bool found;
  std::array<LostShares, 2>& shares = known_.look(company, bits, found);
  if (!found)
    for (std::size_t i = 0; i < rows.size(); ++i) shares[i] = lost_shares(all, i, apart, limits_);
  for (std::size_t i = 0; i < rows.size(); ++i) sm.residents[i].shares = shares[i];
}

RunningParts LossMeter::ended(WorkId id, const Work& work, Time now) {
  CORUN_EXPECTS(id.value < launches_.size());
  for (Sm& sm : sms_)
    if (std::ranges::any_of(sm.residents, [&](const Resident& r) { return r.work == id; })) pass(sm, now.count());
  const Launch& launch = launches_[id.value];
  LostShares shares{};
  if (launch.time > 0) {
    double left = 1;
    for (std::size_t i = 0; i < kSharedResources; ++i) left -= shares[i] = launch.lost[i] / launch.time;
    const auto [fast, slow] = work.times_alone;
    const double alone = work.load.alone_ps;
    if (fast > 0 && alone >= slow && slow >= fast) {
      shares[kAtClock] += left * (slow - fast) / alone;
      shares[kAtL2] += left * (alone - slow) / alone;
    }
  }
  return divided(now - launch.started, shares, work.record.solo);
}

}  // namespace corun::sim
