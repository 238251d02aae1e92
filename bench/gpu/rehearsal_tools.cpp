#include "bench/gpu/rehearsal_tools.hpp"

#include <utility>

namespace spjit::bench {

CudaSearchTools rehearsal_tools(CudaSearchTools tools) {
  tools.time = [time = std::move(tools.time)](std::span<const CudaTuningCandidate> candidates,
                                              const TuningOptions& given) {
    TuningOptions options = given;
    options.min_rounds = options.max_rounds = 1;
    options.min_sample_us = 1;
    options.call_limit_ms = 60'000;
    return time(candidates, options);
  };
  return tools;
}

}  // namespace spjit::bench
