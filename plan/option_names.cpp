// The names of enumerations of options.

#include <fmt/format.h>

#include "spjit/error.hpp"
#include "spjit/options.hpp"

namespace spjit {

SearchMode parse_search(std::string_view name) {
  for (const SearchMode mode :
       {SearchMode::instant, SearchMode::ranked, SearchMode::proxy, SearchMode::exhaustive}) {
    if (name == to_string(mode)) return mode;
  }
  throw InvalidArgument(fmt::format(
      "search mode \"{}\" is unknown; expected instant, ranked, proxy or exhaustive", name));
}

std::string_view to_string(SearchMode mode) {
  switch (mode) {
    case SearchMode::instant:
      return "instant";
    case SearchMode::ranked:
      return "ranked";
    case SearchMode::proxy:
      return "proxy";
    case SearchMode::exhaustive:
      return "exhaustive";
  }
  return "?";
}

VerifyMode parse_verify(std::string_view name) {
  for (const VerifyMode mode : {VerifyMode::none, VerifyMode::sampled, VerifyMode::full}) {
    if (name == to_string(mode)) return mode;
  }
  throw InvalidArgument(
      fmt::format("verify mode \"{}\" is unknown; expected none, sampled or full", name));
}

std::string_view to_string(VerifyMode mode) {
  switch (mode) {
    case VerifyMode::none:
      return "none";
    case VerifyMode::sampled:
      return "sampled";
    case VerifyMode::full:
      return "full";
  }
  return "?";
}

CudaSource parse_cuda_source(std::string_view name) {
  for (const CudaSource source : {CudaSource::ptx, CudaSource::cuda}) {
    if (name == to_string(source)) return source;
  }
  throw InvalidArgument(fmt::format("CUDA source \"{}\" is unknown; expected ptx or cuda", name));
}

std::string_view to_string(CudaSource source) { return source == CudaSource::ptx ? "ptx" : "cuda"; }

}  // namespace spjit
