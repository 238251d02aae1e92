#pragma once

/// @file
/// Options of gpu_bench.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "bench/gpu/gpu_case.hpp"

namespace spjit::bench {

inline constexpr std::string_view k_gpu_bench_usage =
    "gpu_bench [--figures LIST] [--json FILE] [--append] [--max-minutes N]\n"
    "          [--tiles N] [--check-only] [--first N] [--device ORDINAL] [--cubins FOLDER]\n"
    "gpu_bench --precompile FOLDER --target CARD [--figures LIST] [--tiles N] [--check-only]\n"
    "          [--first N]\n"
    "gpu_bench --check-cubins FOLDER [--figures LIST] [--device ORDINAL]\n"
    "  --figures LIST   some of ranks,searches (default: all)\n"
    "  --json FILE      write the results there, after each case\n"
    "  --append         keep the cases that FILE has, measure the others\n"
    "  --max-minutes N  begin no case that would end later, were it as long as the longest of its\n"
    "                   figure (default 0: go on to the end)\n"
    "  --tiles N        of a search only N tiles, spread over the ranking (default 0: all)\n"
    "  --check-only     launch every kernel and compare its result; time nothing; of each figure "
    "a\n"
    "                   small matrix and two ways\n"
    "  --first N        only the first N cases of each figure\n"
    "  --device N       the GPU (default 0)\n"
    "  --cubins FOLDER  load cubins from there; what it lacks is compiled\n"
    "  --precompile FOLDER  compile the cubins of the figures into it, for --target CARD, say\n"
    "                   sm_90:h100; needs no GPU; goes on where it was interrupted\n"
    "  --check-cubins FOLDER  say whether the cubins are for this device and version, and whole,\n"
    "                   and whether the steps of --figures (here also constants, paper, dlmc) are\n"
    "                   finished; with --check-only those of a rehearsal\n";

/// The task of the program.
enum class GpuBenchMode : std::uint8_t { measure, precompile, check_cubins };

struct GpuBenchArguments {
  GpuBenchMode mode = GpuBenchMode::measure;
  std::vector<std::string> figures;  ///< empty: all
  std::filesystem::path json;
  bool append = false;
  double max_minutes = 0;  ///< of measuring; 0: as long as it takes
  GpuBenchOptions bench;
  std::size_t first = 1'000'000;
  std::filesystem::path cubins;  ///< of every mode; empty: none
  std::string target;            ///< to compile for

  [[nodiscard]] bool wants(std::string_view figure) const;
};

/// Throws InvalidArgument for what is unknown, has no value or no number, or does not go together.
[[nodiscard]] GpuBenchArguments parse_gpu_bench(const std::vector<std::string>& arguments);

}  // namespace spjit::bench
