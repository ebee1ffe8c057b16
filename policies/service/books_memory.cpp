// The books' part in memory: programs ask, the policy grants and moves; and what is shown to those who look.
#include "policies/service/books.h"

namespace corun::live {

void Books::allocates(std::uint32_t client, std::uint32_t block, std::uint32_t generation,
                      std::uint64_t bytes, Time now) {
  if (listener_) listener_->memory({BooksListener::OfMemory::What::allocates, client, block, generation, bytes}, now);
  LaunchView& l = new_view(client, now);
  l.bytes = bytes;
  if (memory_->allocates(client, block, generation, bytes, l.id, l.client, now))
    notices_.push_back(AllocationReady{l.id});
  else
    forget(l.id);
}

/// An allocation waits no longer.
void Books::forget(std::optional<LaunchId> allocation) {
  if (!allocation) return;
  view(*allocation).state = LaunchState::finished;
  retired_.push_back(allocation->slot);
}

void Books::frees(std::uint32_t client, std::uint32_t block, std::uint32_t generation, Time now) {
  if (listener_) listener_->memory({BooksListener::OfMemory::What::frees, client, block, generation}, now);
  forget(memory_->frees(client, block, generation));
  notices_.push_back(WokeUp{});  // there is room
}

void Books::moved(std::uint32_t client, std::uint32_t block, std::uint32_t generation, bool done, Time now) {
  if (listener_) listener_->memory({BooksListener::OfMemory::What::moved, client, block, generation, done}, now);
  if (const auto buffer = memory_->moved(client, block, generation, done, now))
    notices_.push_back(BufferMoved{*buffer});
}

void Books::wants(std::uint32_t client, std::uint32_t number, Time now) {
  if (listener_) listener_->memory({BooksListener::OfMemory::What::wants, client, number}, now);
  memory_->wants(client, number);
  const auto& accounts = memory_->accounts();
  for (BufferId id : memory_->held(client))
    if (accounts.absent({&id, 1})) return notices_.push_back(BufferWanted{id});
  notices_.push_back(WokeUp{});
}

void Books::has(std::uint32_t client, std::uint32_t number, Time now) {
  if (listener_) listener_->memory({BooksListener::OfMemory::What::has, client, number}, now);
  if (memory_->has(client, number, now)) notices_.push_back(WokeUp{});
}

void Books::touched(std::uint32_t client, Time now) {
  if (listener_) listener_->memory({BooksListener::OfMemory::What::touched, client}, now);
  memory_->touched(client, now);
}

std::vector<AddressedCommand> Books::take_commands() {
  return memory_ ? memory_->take_commands() : std::vector<AddressedCommand>{};
}

std::vector<std::uint32_t> Books::overdue(Time now) const {
  return memory_ ? memory_->overdue(now) : std::vector<std::uint32_t>{};
}

/// What launches and allocations use, as a policy sees it.
void Books::show_memory() {
  for (LaunchId id : pending_.all()) view(id).uses = memory_->held(places_[id.slot].client);
  for (LaunchId id : memory_->allocating()) view(id).uses = {&memory_->asked_by(id), 1};
}

void Books::say_held_back() {
  for (const auto& [number, p] : programs_) memory_->held_back(number, false);
  for (LaunchId id : pending_.all()) memory_->held_back(places_[id.slot].client, true);
}

bool Books::apply_memory(const Decision& decision, Time now) {
  if (const auto* allocate = std::get_if<decide::Allocate>(&decision)) {
    const auto granted = memory_->apply(*allocate);
    forget(granted);
    if (granted) notices_.push_back(WokeUp{});  // launches of its program may be next
  } else if (const auto* checkpoint = std::get_if<decide::Checkpoint>(&decision)) {
    memory_->apply(*checkpoint, now);
  } else if (const auto* restore = std::get_if<decide::Restore>(&decision)) {
    memory_->apply(*restore, now);
  } else {
    return false;
  }
  return true;
}

std::vector<ClientState> Books::state() const {
  std::vector<ClientState> all;
  for (const auto& [number, p] : programs_) {
    if (!p->there) continue;
    ClientState s{number, p->self, p->request, 0, 0, p->on_gpu_for, p->all, p->stoppable, p->stops, p->resizes};
    for (std::uint32_t i = 0; i < kShownStreams; ++i)
      s.on_gpu += p->on_gpu[i].size(), s.pending += p->held[i].size();
    for (LaunchId id : pending_.all()) s.pending += places_[id.slot].client == number;
    if (memory_) std::tie(s.device_bytes, s.host_bytes) = memory_->bytes(number);
    s.late = p->late;
    all.push_back(s);
  }
  return all;
}

}  // namespace corun::live
