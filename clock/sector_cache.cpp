#include "clock/sector_cache.hpp"

#include <algorithm>
#include <utility>

namespace spjit {

SectorCache::SectorCache(double bytes, std::uint64_t sets) : is_hashed_(sets == 0) {
  const auto lines = static_cast<std::uint64_t>(std::max(0.0, bytes) / k_line_bytes);
  if (lines == 0) return;
  sets_ = std::clamp<std::uint64_t>(is_hashed_ ? lines / k_hashed_ways : sets, 1, lines);
  ways_ = lines / sets_;
  lines_.resize(sets_ * ways_);
}

/// Hashed as devices do, so that rows whose distance is a power of two do not meet.
std::size_t SectorCache::set_of(std::uint64_t line) const noexcept {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
  const std::uint64_t number = is_hashed_ ? line * odd >> 20 : line;
  return static_cast<std::size_t>(number % sets_ * ways_);
}

/// Its number, or that of none.
std::size_t SectorCache::place_of(std::uint64_t line) const noexcept {
  if (sets_ == 0) return lines_.size();
  const std::size_t begin = set_of(line);
  for (std::size_t i = begin; i < begin + ways_; ++i) {
    if (lines_[i].tag == line) return i;
  }
  return lines_.size();
}

double SectorCache::find(std::uint64_t sector) {
  const std::size_t place = place_of(sector / k_sectors_a_line);
  if (place == lines_.size()) {
    ++misses_;
    return -1;
  }
  Line& line = lines_[place];
  line.used = ++uses_;
  const double ready = line.ready[sector % k_sectors_a_line];
  ++(ready < 0 ? misses_ : hits_);
  return ready;
}

double SectorCache::room_from(std::uint64_t sector, double at) const {
  const std::uint64_t line = sector / k_sectors_a_line;
  if (sets_ == 0 || place_of(line) != lines_.size()) return at;
  const auto begin = lines_.begin() + static_cast<std::ptrdiff_t>(set_of(line));
  const auto first =
      std::min_element(begin, begin + static_cast<std::ptrdiff_t>(ways_),
                       [](const Line& a, const Line& b) { return a.until < b.until; });
  return std::max(at, first->until);
}

void SectorCache::fill(std::uint64_t sector, double at, double ready) {
  if (sets_ == 0) return;
  const std::uint64_t tag = sector / k_sectors_a_line;
  std::size_t place = place_of(tag);
  if (place == lines_.size()) {
    const auto begin = lines_.begin() + static_cast<std::ptrdiff_t>(set_of(tag));
    const auto oldest = std::min_element(
        begin, begin + static_cast<std::ptrdiff_t>(ways_), [&](const Line& a, const Line& b) {
          return std::pair(a.until > at, a.used) < std::pair(b.until > at, b.used);
        });
    *oldest = Line{};
    oldest->tag = tag;
    place = static_cast<std::size_t>(oldest - lines_.begin());
  }
  Line& line = lines_[place];
  line.used = ++uses_;
  line.until = std::max(line.until, ready);
  line.ready[sector % k_sectors_a_line] = ready;
}

}  // namespace spjit
