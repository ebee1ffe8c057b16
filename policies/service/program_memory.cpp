#include "policies/service/program_memory.h"

#include <algorithm>

namespace corun::live {

using Place = BufferView::Place;

void ProgramMemory::command(MemoryCommand::What what, BufferId id) {
  const Owner& of = owner(id);
  commands_.push_back({of.client, {what, of.block, programs_.at(of.client).blocks.at(of.block).generation}});
}

void ProgramMemory::command_move(MemoryCommand::What what, BufferId id, Time now) {
  Program& p = programs_.at(owner(id).client);
  if (p.moving == 0) p.moving_since = now;
  p.moving += memory_[id].bytes;
  command(what, id);
}

void ProgramMemory::has_moved(Program& p, BufferId id) {
  const Place place = memory_[id].place;
  if (place == Place::to_host || place == Place::to_device) p.moving -= memory_[id].bytes;
}

std::vector<std::uint32_t> ProgramMemory::overdue(Time now) const {
  std::vector<std::uint32_t> all;
  for (const auto& [client, p] : programs_)
    if (p.due() <= now) all.push_back(client);
  return all;
}

/// What it was given may be used from here on, or no longer.
void ProgramMemory::use(Program& p, bool uses, Time now) {
  if (p.uses == uses) return;
  p.uses = uses;
  if (uses)
    memory_.begin_use(p.held, true, now);
  else
    memory_.end_use(p.held);
}

/// The program has given it back, or is gone: on the device it is no longer.
void ProgramMemory::release(Program& p, Block& block) {
  const BufferId id = block.buffer;
  if (std::erase(p.held, id) != 0 && p.uses) memory_.end_use({&id, 1});
  has_moved(p, id);
  if (const Place place = memory_[id].place; place == Place::to_host || place == Place::to_device)
    memory_.moved(id);
  if (block.allocation) {
    --p.allocations;
    std::erase(allocating_, *block.allocation);
  }
  memory_.release(id);
  memory_.take_vacated();
}

std::vector<LaunchId> ProgramMemory::leave(std::uint32_t client) {
  std::vector<LaunchId> waited;
  Program& p = programs_.at(client);
  for (auto& [number, block] : p.blocks) {
    if (block.allocation) waited.push_back(*block.allocation);
    release(p, block);
  }
  programs_.erase(client);
  std::erase_if(commands_, [&](const AddressedCommand& o) { return o.client == client; });
  return waited;
}

void ProgramMemory::renumber(std::uint32_t client, ClientId id) {
  for (const auto& [number, block] : programs_[client].blocks) memory_.belongs_to(block.buffer, id);
}

bool ProgramMemory::allocates(std::uint32_t client, std::uint32_t block, std::uint32_t generation,
                              std::uint64_t bytes, LaunchId allocation, ClientId id, Time now) {
  Program& p = programs_.at(client);
  if (const auto at = p.blocks.find(block);
      at != p.blocks.end()) {  // one of which it did not say that it is no longer
    release(p, at->second);
    p.blocks.erase(at);
  }
  std::uint64_t own = 0;
  for (const auto& [number, each] : p.blocks) own += memory_[each.buffer].bytes;
  if (bytes > memory_.capacity() - std::min(own, memory_.capacity())) {
    commands_.push_back({client, {MemoryCommand::What::refuse, block, generation}});
    return false;
  }
  const BufferId buffer = memory_.ask(id, bytes, now);
  if (owner_.size() <= buffer.value) owner_.resize(buffer.value + 1);
  owner_[buffer.value] = {client, block};
  p.blocks[block] = {generation, buffer, allocation};
  ++p.allocations;
  allocating_.push_back(allocation);
  return true;
}

std::optional<LaunchId> ProgramMemory::frees(std::uint32_t client, std::uint32_t block,
                                             std::uint32_t generation) {
  Program& p = programs_.at(client);
  const auto at = p.blocks.find(block);
  if (at == p.blocks.end() || at->second.generation != generation) return {};
  const std::optional<LaunchId> waited = at->second.allocation;
  release(p, at->second);
  p.blocks.erase(at);
  return waited;
}

std::optional<BufferId> ProgramMemory::moved(std::uint32_t client, std::uint32_t block,
                                             std::uint32_t generation, bool done, Time now) {
  Program& p = programs_.at(client);
  const auto at = p.blocks.find(block);
  if (at == p.blocks.end() || at->second.generation != generation) return {};
  const BufferId id = at->second.buffer;
  const bool out = memory_[id].place == Place::to_host;
  if (!out && memory_[id].place != Place::to_device) return {};
  has_moved(p, id);
  p.moving_since = now;
  if (done) {
    memory_.moved(id);
    if (!out) came(p, now);
  } else {
    memory_.stays(id);
    (out ? p.stays_until : p.in_again_at) = now + (out ? kStays : kAgainIn);
  }
  return id;
}

/// A block of it has; what has come is to be used first.
void ProgramMemory::came(Program& p, Time now) {
  p.last = now;
  if (memory_.absent(p.held)) return;
  p.comes = false;
  p.linger = std::clamp(now - p.came_from, kLinger, kMostLinger);
}

void ProgramMemory::wants(std::uint32_t client, std::uint32_t number) { programs_.at(client).wants = number; }

bool ProgramMemory::has(std::uint32_t client, std::uint32_t number, Time now) {
  Program& p = programs_.at(client);
  const bool unasked = p.wants == number;
  if (unasked) p.wants.reset();
  if (p.goes == number) p.goes.reset();
  p.last = now, p.copying_until = now + kCopying;
  return unasked;
}

void ProgramMemory::touched(std::uint32_t client, Time now) {
  Program& p = programs_.at(client);
  if (now < p.copying_until) p.last = now;
}

void ProgramMemory::launched(std::uint32_t client, Time now) {
  Program& p = programs_.at(client);
  if (p.launched++ == 0) p.at_work = now;  // behind others it says nothing of the program
  use(p, true, now);
}

void ProgramMemory::ended(std::uint32_t client, Time now) {
  Program& p = programs_.at(client);
  --p.launched;
  p.at_work = now;
  p.last = now, p.copying_until = now + kCopying;
}

std::string ProgramMemory::apply(const decide::Checkpoint& checkpoint, Time now) {
  if (std::string why = memory_.why_not(checkpoint); !why.empty()) return why;
  memory_.begin(checkpoint);
  command_move(MemoryCommand::What::checkpoint, checkpoint.buffer, now);
  return {};
}

std::string ProgramMemory::apply(const decide::Restore& restore, Time now) {
  if (std::string why = memory_.why_not(restore); !why.empty()) return why;
  Program& p = programs_.at(owner(restore.buffer).client);
  if (now < p.in_again_at) return "the driver had no memory a moment ago";
  if (!std::exchange(p.comes, true)) p.came_from = now;
  memory_.begin(restore);
  command_move(MemoryCommand::What::restore, restore.buffer, now);
  return {};
}

std::optional<LaunchId> ProgramMemory::apply(const decide::Allocate& allocate) {
  if (std::ranges::find(allocating_, allocate.allocation) == allocating_.end()) return {};
  const BufferId id = asked_by(allocate.allocation);
  if (!memory_.fits(id)) return {};
  memory_.grant(id);
  Program& p = programs_.at(owner(id).client);
  // All of its blocks are used together: so one program's go, and not parts of several, none of which could run.
  if (!p.held.empty()) memory_.as_used_as(id, p.held.front());
  p.held.push_back(id);
  if (p.uses) memory_.begin_use({&id, 1}, false, memory_[id].last_used);
  p.blocks.at(owner(id).block).allocation.reset();
  --p.allocations;
  std::erase(allocating_, allocate.allocation);
  command(MemoryCommand::What::allocate, id);
  return allocate.allocation;
}

const BufferId& ProgramMemory::asked_by(LaunchId allocation) const {
  for (const auto& [client, p] : programs_)
    for (const auto& [number, block] : p.blocks)
      if (block.allocation == allocation) return memory_[block.buffer].id;
  throw std::logic_error("an allocation that nobody asked for");
}

bool ProgramMemory::look(Time now) {
  bool changed = false;
  for (auto& [client, p] : programs_) {
    const bool uses = now < p.in_use_until() || (!p.held.empty() && now < p.uses_until());
    changed |= uses != p.uses;
    use(p, uses, now);
    if (p.in_again_at != Time{} && p.in_again_at <= now) p.in_again_at = Time{}, changed = true;
    // An allocation and a call that waits want all that the program has, so that none of it is taken for them.
    for (const auto& [number, block] : p.blocks) {
      const bool counts = block.allocation || p.waits();
      memory_.set_copies_wait(block.buffer,
                              counts ? p.allocations + (p.wants && !block.allocation ? 1 : 0) : 0);
    }
  }
  return changed;
}

bool ProgramMemory::let_go(Time now) {
  bool any = false;
  for (auto& [client, p] : programs_) {
    if (!p.wants || memory_.absent(p.held)) continue;
    commands_.push_back({client, {MemoryCommand::What::go, *p.wants, 0}});
    p.goes = std::exchange(p.wants, {});
    p.at_work = now;
    any = true;
  }
  return any;
}

Time ProgramMemory::next_look(bool launches) const {
  Time next = kNever, due = kNever;
  bool waits = launches;
  for (const auto& [client, p] : programs_) {
    waits |= p.waits();
    if (p.uses) next = std::min(next, std::max(p.uses_until(), p.in_use_until()));
    if (p.in_again_at != Time{}) next = std::min(next, p.in_again_at);
    due = std::min(due, p.due());
  }
  return std::min(waits ? next : kNever, due);
}

std::pair<std::uint64_t, std::uint64_t> ProgramMemory::bytes(std::uint32_t client) const {
  std::uint64_t device = 0, host = 0;
  for (BufferId id : programs_.at(client).held)
    (memory_[id].place == Place::host ? host : device) += memory_[id].bytes;
  return {device, host};
}

}  // namespace corun::live
