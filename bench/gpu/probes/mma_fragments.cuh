#pragma once

// mma.sync, mma.sp and wgmma of one tile, from fragments as PTX lays them out: lane = 4 * group +
// t.

#include <cstdint>

namespace probe {

struct Accumulator {
  float value[4];  // (group, 2t), (group, 2t + 1), (group + 8, 2t), (group + 8, 2t + 1)
};

__device__ inline void mma_f16_k16(Accumulator& d, const std::uint32_t (&a)[4],
                                   const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d.value[0]), "+f"(d.value[1]), "+f"(d.value[2]), "+f"(d.value[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline void mma_bf16_k16(Accumulator& d, const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d.value[0]), "+f"(d.value[1]), "+f"(d.value[2]), "+f"(d.value[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline void mma_tf32_k8(Accumulator& d, const std::uint32_t (&a)[4],
                                   const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d.value[0]), "+f"(d.value[1]), "+f"(d.value[2]), "+f"(d.value[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline void mma_sp_f16_k32(Accumulator& d, const std::uint32_t (&a)[4],
                                      const std::uint32_t (&b)[4], std::uint32_t metadata) {
  asm volatile(
      "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
      "{%4, %5, %6, %7}, {%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, 0x0;"
      : "+f"(d.value[0]), "+f"(d.value[1]), "+f"(d.value[2]), "+f"(d.value[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
        "r"(metadata));
}

/// B in shared memory as two 8 x 16-byte core matrices, 128 bytes apart, without a swizzle.
__device__ inline std::uint64_t wgmma_descriptor(const void* shared) {
  const std::uint64_t address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const std::uint64_t offset = 128 >> 4;
  return (address & 0x3ffff) >> 4 | offset << 16 | offset << 32;
}

#define PROBE_WGMMA(shape, type, transpose)                                    \
  asm volatile(                                                                \
      "{\n"                                                                    \
      "wgmma.fence.sync.aligned;\n"                                            \
      "wgmma.mma_async.sync.aligned." shape ".f32." type "." type              \
      " {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1" transpose             \
      ";\n"                                                                    \
      "wgmma.commit_group.sync.aligned;\n"                                     \
      "wgmma.wait_group.sync.aligned 0;\n"                                     \
      "}"                                                                      \
      : "+f"(d.value[0]), "+f"(d.value[1]), "+f"(d.value[2]), "+f"(d.value[3]) \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(descriptor)            \
      : "memory")

__device__ inline void wgmma_f16_k16(Accumulator& d, const std::uint32_t (&a)[4],
                                     std::uint64_t descriptor) {
  PROBE_WGMMA("m64n8k16", "f16", ", 0");
}

__device__ inline void wgmma_bf16_k16(Accumulator& d, const std::uint32_t (&a)[4],
                                      std::uint64_t descriptor) {
  PROBE_WGMMA("m64n8k16", "bf16", ", 0");
}

__device__ inline void wgmma_tf32_k8(Accumulator& d, const std::uint32_t (&a)[4],
                                     std::uint64_t descriptor) {
  PROBE_WGMMA("m64n8k8", "tf32", "");
}

#undef PROBE_WGMMA

}  // namespace probe
