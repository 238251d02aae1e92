#include "cuda_testing.hpp"

#include <cstdlib>

namespace spjit::test {
namespace {

std::shared_ptr<const CudaDriver> load_emulated_driver() {
  // Read by the library when it is initialized.
  ::setenv("SPJIT_EMULATED_CUDA_ARCH", "75", 1);
  ::setenv("SPJIT_EMULATED_CUDA_DEVICES", "2", 1);
  return CudaDriver::load(SPJIT_EMULATED_CUDA);
}

constexpr std::string_view k_test_ptx = R"(.version 7.8
.target sm_75
.address_size 64
.visible .entry add_one(.param .u64 in, .param .u64 out, .param .u32 n)
{
.reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mad.lo.s32 %r3, %r1, %r2, %r0;
ld.param.u32 %r4, [n];
setp.ge.u32 %p0, %r3, %r4;
@%p0 bra $DONE;
ld.param.u64 %rd0, [in];
ld.param.u64 %rd1, [out];
mul.wide.u32 %rd2, %r3, 4;
add.s64 %rd3, %rd0, %rd2;
add.s64 %rd4, %rd1, %rd2;
ld.global.u32 %r5, [%rd3];
add.s32 %r6, %r5, 1;
st.global.u32 [%rd4], %r6;
$DONE:
ret;
}
.visible .entry fault()
{
.reg .b64 %rd<2>;
mov.u64 %rd0, 0;
st.global.u32 [%rd0], 1;
ret;
}
)";

}  // namespace

std::shared_ptr<const CudaDriver> emulated_driver() {
  static const std::shared_ptr<const CudaDriver> driver = load_emulated_driver();
  return driver;
}

std::string_view test_ptx() { return k_test_ptx; }

CudaModule load_text(const CudaContext& context, std::string_view text) {
  return {context, std::as_bytes(std::span(text))};
}

std::vector<std::uint32_t> download_words(const DeviceBuffer& buffer) {
  std::vector<std::uint32_t> words(buffer.bytes() / sizeof(std::uint32_t));
  buffer.download(std::as_writable_bytes(std::span(words)));
  return words;
}

DeviceBuffer upload_words(const CudaContext& context, const std::vector<std::uint32_t>& words) {
  DeviceBuffer buffer(context, words.size() * sizeof(std::uint32_t));
  buffer.upload(std::as_bytes(std::span(words)));
  return buffer;
}

}  // namespace spjit::test
