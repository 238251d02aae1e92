#include "base/host_cpu.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/fork_safe_mutex.hpp"

namespace spjit {
namespace {

constexpr std::int64_t k_default_l1_bytes = std::int64_t{32} << 10;
constexpr std::int64_t k_default_l2_bytes = std::int64_t{512} << 10;

#if defined(__x86_64__)

struct CpuidResult {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
};

/// All zeros for a leaf the CPU does not have.
CpuidResult cpuid(unsigned leaf, unsigned subleaf = 0) {
  CpuidResult result;
  __get_cpuid_count(leaf, subleaf, &result.eax, &result.ebx, &result.ecx, &result.edx);
  return result;
}

bool bit(unsigned word, int index) { return ((word >> index) & 1U) != 0; }

/// XCR0: the register state the operating system saves. Precondition: OSXSAVE is set.
std::uint64_t enabled_state() {
  unsigned low = 0;
  unsigned high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0U));
  return (std::uint64_t{high} << 32U) | low;
}

std::string vendor_string() {
  const CpuidResult leaf = cpuid(0);
  std::array<char, 12> text{};
  std::memcpy(text.data(), &leaf.ebx, 4);
  std::memcpy(text.data() + 4, &leaf.edx, 4);
  std::memcpy(text.data() + 8, &leaf.ecx, 4);
  return {text.begin(), text.end()};
}

std::string brand_string() {
  constexpr unsigned first_leaf = 0x80000002U;
  std::array<char, 48> text{};
  for (unsigned i = 0; i < 3; ++i) {
    const CpuidResult leaf = cpuid(first_leaf + i);
    std::memcpy(text.data() + std::size_t{16} * i, &leaf, 16);
  }
  std::string brand(text.data(), ::strnlen(text.data(), text.size()));
  const auto first = brand.find_first_not_of(' ');
  if (first == std::string::npos) return "unknown";
  return brand.substr(first, brand.find_last_not_of(' ') - first + 1);
}

void fill_identity(HostCpu& cpu) {
  cpu.vendor = vendor_string();
  cpu.model_name = brand_string();
  const unsigned signature = cpuid(1).eax;
  const unsigned base_family = (signature >> 8U) & 0xFU;
  const unsigned base_model = (signature >> 4U) & 0xFU;
  const unsigned extended_family = (signature >> 20U) & 0xFFU;
  const unsigned extended_model = (signature >> 16U) & 0xFU;
  // The extended fields only count for these base families (both vendors' manuals).
  const bool has_extended_model = base_family == 0x6U || base_family == 0xFU;
  cpu.family = static_cast<int>(base_family + (base_family == 0xFU ? extended_family : 0U));
  cpu.model = static_cast<int>(base_model + (has_extended_model ? extended_model << 4U : 0U));
  cpu.stepping = static_cast<int>(signature & 0xFU);
}

void fill_features(HostCpu& cpu) {
  constexpr std::uint64_t avx_state = 0x6;      // SSE and upper halves of YMM
  constexpr std::uint64_t avx512_state = 0xE6;  // and opmask, upper ZMM, ZMM16-31
  const CpuidResult leaf1 = cpuid(1);
  const CpuidResult leaf7 = cpuid(7);
  const bool osxsave = bit(leaf1.ecx, 27);
  const std::uint64_t state = osxsave ? enabled_state() : 0;
  const bool avx = bit(leaf1.ecx, 28) && (state & avx_state) == avx_state;
  cpu.avx2_fma = avx && bit(leaf1.ecx, 12) && bit(leaf1.ecx, 29) && bit(leaf7.ebx, 5);
  const bool f_dq_bw_vl =
      bit(leaf7.ebx, 16) && bit(leaf7.ebx, 17) && bit(leaf7.ebx, 30) && bit(leaf7.ebx, 31);
  cpu.avx512 = cpu.avx2_fma && f_dq_bw_vl && (state & avx512_state) == avx512_state;
  // Leaf 7 EAX is the number of its highest subleaf.
  const CpuidResult leaf7_1 = leaf7.eax >= 1 ? cpuid(7, 1) : CpuidResult{};
  cpu.avx512_bf16 = cpu.avx512 && bit(leaf7_1.eax, 5);
  cpu.avx512_vbmi = cpu.avx512 && bit(leaf7.ecx, 1);
  cpu.avx512_vbmi2 = cpu.avx512 && bit(leaf7.ecx, 6);
  cpu.avx512_vnni = cpu.avx512 && bit(leaf7.ecx, 11);
  cpu.avx_vnni = cpu.avx2_fma && bit(leaf7_1.eax, 4);
}

#else

void fill_identity(HostCpu& cpu) { cpu.model_name = "unknown"; }
void fill_features(HostCpu& /*cpu*/) {}

#endif

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

/// "32K" or "1M" as sysfs writes them; 0 for anything else.
std::int64_t parse_cache_size(const std::string& text) {
  std::size_t end = 0;
  while (end < text.size() && end < 12 && text[end] >= '0' && text[end] <= '9') ++end;
  if (end == 0) return 0;
  const std::int64_t number = std::stoll(text.substr(0, end));
  if (end == text.size()) return number;
  if (text[end] == 'K') return number << 10;
  if (text[end] == 'M') return number << 20;
  return 0;
}

void fill_caches_from_sysfs(HostCpu& cpu) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder =
        "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
    const std::string level = first_word(folder + "level");
    const std::string type = first_word(folder + "type");
    const std::int64_t bytes = parse_cache_size(first_word(folder + "size"));
    if (level == "1" && type == "Instruction") cpu.l1i_bytes = bytes;
    if (level == "1" && type == "Data") cpu.l1d_bytes = bytes;
    if (level == "2") cpu.l2_bytes = bytes;
    if (level == "3") cpu.l3_bytes = bytes;
  }
}

std::int64_t first_positive(std::int64_t found, int sysconf_name, std::int64_t fallback) {
  if (found > 0) return found;
  const std::int64_t asked = ::sysconf(sysconf_name);
  return asked > 0 ? asked : fallback;
}

void fill_caches(HostCpu& cpu) {
  fill_caches_from_sysfs(cpu);
  // Containers may hide sysfs; glibc then asks CPUID.
  cpu.l1i_bytes = first_positive(cpu.l1i_bytes, _SC_LEVEL1_ICACHE_SIZE, k_default_l1_bytes);
  cpu.l1d_bytes = first_positive(cpu.l1d_bytes, _SC_LEVEL1_DCACHE_SIZE, k_default_l1_bytes);
  cpu.l2_bytes = first_positive(cpu.l2_bytes, _SC_LEVEL2_CACHE_SIZE, k_default_l2_bytes);
  cpu.l3_bytes = first_positive(cpu.l3_bytes, _SC_LEVEL3_CACHE_SIZE, 0);
}

}  // namespace

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on machines with more CPUs than cpu_set_t holds.
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

HostCpu detect_host_cpu() {
  HostCpu cpu;
  fill_identity(cpu);
  fill_features(cpu);
  fill_caches(cpu);
  cpu.logical_cpus = usable_cpus();
  return cpu;
}

const HostCpu& host_cpu() {
  static constinit FoundOnce<HostCpu> cpu;
  return cpu.get(detect_host_cpu);
}

}  // namespace spjit
