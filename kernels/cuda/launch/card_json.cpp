#include "kernels/cuda/launch/card_json.hpp"

#include <nlohmann/json.hpp>

#include "runtime/cuda/cuda_device_info.hpp"

namespace spjit {

nlohmann::json card_json(const CudaDeviceInfo& limits) {
  return {{"name", limits.name()},
          {"arch", limits.arch},
          {"sms", limits.sms},
          {"l2_bytes", limits.l2_bytes}};
}

}  // namespace spjit
