// When SMs part from their cohort, and when they are one again.
#include "sim/stages/compute_engine.h"

#include <algorithm>

namespace corun::sim {

/// The members in `part` become a cohort of their own.  Returns its head.
std::uint32_t ComputeEngine::single_out(std::uint32_t head, const SmMask& part) {
  if (part == cohorts_.members(head)) return head;
  const std::uint32_t other = cohorts_.split(head, part);
  free_[other] = free_[head];
  division_[other] = division_[head];
  shared_.split(head, other);
  changed_sms_.set(other);
  note_change(other);
  return part.test(head) ? head : other;
}

/// Each SM on its own.
void ComputeEngine::scatter(std::uint32_t head) {
  const SmMask members = cohorts_.members(head);
  members.for_each([&](std::uint32_t rank) {
    if (rank == head) return;
    SmMask one;
    one.set(rank);
    single_out(head, one);
  });
}

/// Workers whose blocks end now, and who may go different ways, go SM by SM.
void ComputeEngine::scatter_what_ends() {
  SmMask heads;
  for (const SharedSms::Ended& e : ended_) {
    const WorkId id = tasks_[e.task.value].work;
    if (!works_[id.value].persistent() || heads.test(e.head)) continue;
    std::uint64_t ending = 0;
    for (const SharedSms::Ended& other : ended_)
      if (tasks_[other.task.value].work == id)
        ending += std::uint64_t{cohorts_.size(other.head)} * other.count;
    if (differ(works_[id.value], ending)) heads.set(e.head);
  }
  if (heads.none()) return;
  scattered_.clear();
  for (const SharedSms::Ended& e : ended_) {
    if (!heads.test(e.head)) {
      scattered_.push_back(e);
      continue;
    }
    cohorts_.members(e.head).for_each([&](std::uint32_t rank) {
      for (std::uint32_t i = 0; i < e.count; ++i) {
        scattered_.push_back(e);
        scattered_.back().head = static_cast<std::uint16_t>(rank);
        scattered_.back().count = 1;
      }
    });
  }
  heads.for_each([this](std::uint32_t head) { scatter(head); });
  ended_.swap(scattered_);
}

/// SMs that have become alike become one cohort again.  Only those that have changed can have.
void ComputeEngine::gather() {
  gather_ = false;
  if (!cohorts_.together() || spread_ != 0) return;  // numbers per SM tell SMs apart
  const SmMask changed = changed_sms_ & cohorts_.heads();
  changed_sms_ = {};
  gathered_ = cohorts_.list();
  changed.for_each([&](std::uint32_t head) {
    for (const std::uint32_t other : gathered_) {
      if (!cohorts_.heads().test(head)) return;
      if (other < head && changed.test(other)) continue;  // it was compared with this one
      if (other == head || !cohorts_.heads().test(other) || !cohorts_.may_join(head, other) ||
          !alike(head, other))
        continue;
      const auto [first, second] = std::minmax(head, other);
      shared_.join(second);
      cohorts_.join(first, second);
      changed_sms_.set(first);
      note_change(second);
    }
  });
}

bool ComputeEngine::alike(std::uint32_t a, std::uint32_t b) const {
  if (free_[a] != free_[b] || in_rows_[a] != 0 || in_rows_[b] != 0) return false;
  const bool empty = free_[a].blocks == gpu_.sm.max_blocks;
  return empty || (division_[a] == division_[b] && shared_.alike(a, b, now_));
}

}  // namespace corun::sim
