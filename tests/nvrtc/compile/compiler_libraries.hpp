#pragma once

/// @file
/// Helpers of tests of CUDA's compiler libraries: the libraries, or the reason to skip, and small
/// programs.

#include <cstdint>
#include <cstring>
#include <string>

#include "kernels/cuda/build/cuda_build.hpp"
#include "runtime/cuda/cuda_libraries.hpp"

/// Skips the test if the libraries that `needs` names are not on this machine.
#define SPJIT_SKIP_WITHOUT_TOOLCHAIN(needs)                                             \
  if (const std::string reason = ::spjit::test::missing_reason(needs); !reason.empty()) \
  GTEST_SKIP() << reason

namespace spjit::test {

inline constexpr CudaToolchainNeeds k_both = {.arch = 80, .nvrtc = true, .nvjitlink = true};

inline CudaToolchain toolchain(const CudaToolchainNeeds& needs = k_both) {
  return load_cuda_toolchain(needs, found_cuda_libraries());
}

inline std::string missing_reason(const CudaToolchainNeeds& needs) {
  try {
    static_cast<void>(toolchain(needs));
  } catch (const NotSupported& missing) {
    return missing.what();
  }
  return {};
}

/// The `sm` of a 64-bit CUDA ELF file; 0 if it is none. e_flags holds it in its lowest byte up to
/// CUDA 12's ABI (7), in its second lowest byte with CUDA 13's (8).
inline int arch_of_cubin(const std::string& cubin) {
  constexpr std::size_t k_machine_offset = 18;
  constexpr std::size_t k_abi_offset = 8;
  constexpr std::size_t k_flags_offset = 48;
  constexpr std::uint16_t k_machine_cuda = 190;
  if (cubin.size() < 64 || !cubin.starts_with("\x7f"
                                              "ELF"))
    return 0;
  std::uint16_t machine = 0;
  std::uint32_t flags = 0;
  std::memcpy(&machine, cubin.data() + k_machine_offset, sizeof machine);
  std::memcpy(&flags, cubin.data() + k_flags_offset, sizeof flags);
  if (machine != k_machine_cuda) return 0;
  return static_cast<int>(cubin[k_abi_offset] == 7 ? flags & 0xFF : (flags >> 8) & 0xFF);
}

inline std::string saxpy_source() {
  return R"(
extern "C" __global__ void saxpy(int n, float a, const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __fmaf_rn(a, x[i], y[i]);
}
)";
}

/// A kernel whose one thread does `fmas` dependent multiply-adds with literals of their own.
inline std::string unrolled_source(int fmas) {
  std::string text =
      "extern \"C\" __global__ void unrolled(const float* b, float* c) {\n"
      "  float sum = 0.0f;\n";
  for (int i = 0; i < fmas; ++i) {
    text +=
        "  sum = __fmaf_rn(" + std::to_string(i + 1) + ".5f, b[" + std::to_string(i) + "], sum);\n";
  }
  return text + "  *c = sum;\n}\n";
}

inline SourceUnit cuda_unit(const std::string& name, const std::string& text) {
  SourceUnit unit;
  unit.name = name;
  unit.language = SourceLanguage::cuda;
  unit.text = text;
  return unit;
}

inline SourceUnit ptx_unit(const std::string& name, const std::string& text) {
  SourceUnit unit = cuda_unit(name, text);
  unit.language = SourceLanguage::ptx;
  return unit;
}

inline std::string ptx_header() { return ".version 7.0\n.target sm_75\n.address_size 64\n"; }

/// `.func twice(x)`, defined. Parameters are .b32, as NVRTC declares floats.
inline std::string ptx_function() {
  return ptx_header() + R"(
.visible .func (.param .b32 result) twice(.param .b32 x) {
  .reg .f32 %f<3>;
  ld.param.f32 %f1, [x];
  add.rn.f32 %f2, %f1, %f1;
  st.param.f32 [result], %f2;
  ret;
}
)";
}

/// A kernel that calls `twice`, declared only.
inline std::string ptx_caller() {
  return ptx_header() + R"(
.extern .func (.param .b32 result) twice(.param .b32 x);
.visible .entry caller(.param .u64 p) {
  .reg .f32 %f<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [p];
  cvta.to.global.u64 %rd2, %rd1;
  ld.global.f32 %f1, [%rd2];
  {
    .param .b32 argument;
    .param .b32 value;
    st.param.f32 [argument], %f1;
    call.uni (value), twice, (argument);
    ld.param.f32 %f2, [value];
  }
  st.global.f32 [%rd2], %f2;
  ret;
}
)";
}

}  // namespace spjit::test
