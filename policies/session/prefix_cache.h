// The beginnings of prompts that a server has read before and keeps: blocks of tokens by their hash, of which the
// one that was not used for longest goes first (LRU).
//
// A block is kept for prompts that are the same up to its end, whether a hash is of it or of all before it too, as
// published traces differ in that.  Leaves out: generated tokens, which a later turn
// of a conversation begins with, since traces do not say their hashes; and memory that running sequences hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>

namespace corun {

class PrefixCache {
 public:
  /// `tokens` it has room for, in blocks of `block`, which is not 0.
  PrefixCache(std::uint64_t tokens, std::uint32_t block) : room_(tokens / block), block_(block) {}

  /// First tokens of a prompt that are kept, in whole blocks.  The last token never is: it gives the first answer.
  std::uint32_t kept(std::span<const std::uint64_t> blocks, std::uint32_t prompt) const {
    const auto whole = blocks.first(std::min<std::size_t>(blocks.size(), (prompt - 1) / block_));
    std::uint32_t same = 0;
    for (std::uint64_t up_to = 0; same < whole.size(); ++same)
      if (!places_.contains(up_to = with(up_to, whole[same]))) break;
    return same * block_;
  }
  /// A prompt is read: its whole blocks are kept from now on, and were used now.
  void keep(std::span<const std::uint64_t> blocks, std::uint32_t prompt) {
    const std::size_t whole = std::min<std::size_t>(blocks.size(), prompt / block_);
    auto at = used_.begin();  // the first block is of use to more prompts than the last: it goes later
    std::uint64_t up_to = 0;
    for (const std::uint64_t hash : blocks.first(whole)) {
      up_to = with(up_to, hash);
      const auto [known, is_new] = places_.try_emplace(up_to);
      if (is_new) {
        known->second = used_.insert(at, up_to);
      } else if (known->second == at) {
        ++at;
      } else {
        used_.splice(at, used_, known->second);
      }
    }
    for (; used_.size() > room_; used_.pop_back()) places_.erase(used_.back());
  }

 private:
  /// Hash of all blocks up to one (splitmix64).
  static std::uint64_t with(std::uint64_t up_to, std::uint64_t hash) {
    std::uint64_t z = up_to * 31 + hash + 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  std::uint64_t room_;
  std::uint32_t block_;
  std::list<std::uint64_t> used_;  // the latest first
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> places_;
};

}  // namespace corun
