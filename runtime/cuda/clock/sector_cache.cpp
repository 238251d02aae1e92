#include "runtime/cuda/clock/sector_cache.hpp"

#include <algorithm>

namespace spjit {
namespace {

constexpr double k_line_bytes = 128;

}  // namespace

SectorCache::SectorCache(double bytes) {
  const auto lines = static_cast<std::uint64_t>(std::max(0.0, bytes) / k_line_bytes);
  if (lines == 0) return;
  ways_ = static_cast<unsigned>(std::min<std::uint64_t>(lines, k_ways));
  sets_ = std::max<std::uint64_t>(lines / ways_, 1);
  lines_.resize(sets_ * ways_);
}

/// Sets are hashed, as devices do, so that rows whose distance is a power of two do not meet.
std::size_t SectorCache::set_of(std::uint64_t line) const noexcept {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
  return static_cast<std::size_t>((line * odd >> 20) % sets_) * ways_;
}

SectorCache::Line* SectorCache::line_of(std::uint64_t line) noexcept {
  if (sets_ == 0) return nullptr;
  const auto begin = lines_.begin() + static_cast<std::ptrdiff_t>(set_of(line));
  const auto found =
      std::find_if(begin, begin + ways_, [&](const Line& l) { return l.tag == line; });
  return found == begin + ways_ ? nullptr : &*found;
}

double SectorCache::find(std::uint64_t sector) {
  Line* const line = line_of(sector / k_sectors_a_line);
  if (line == nullptr) {
    ++misses_;
    return -1;
  }
  line->used = ++uses_;
  const double ready = line->ready[sector % k_sectors_a_line];
  ++(ready < 0 ? misses_ : hits_);
  return ready;
}

void SectorCache::fill(std::uint64_t sector, double ready) {
  if (sets_ == 0) return;
  const std::uint64_t tag = sector / k_sectors_a_line;
  Line* line = line_of(tag);
  if (line == nullptr) {
    const auto begin = lines_.begin() + static_cast<std::ptrdiff_t>(set_of(tag));
    line = &*std::min_element(begin, begin + ways_,
                              [](const Line& a, const Line& b) { return a.used < b.used; });
    *line = Line{};
    line->tag = tag;
  }
  line->used = ++uses_;
  line->ready[sector % k_sectors_a_line] = ready;
}

}  // namespace spjit
