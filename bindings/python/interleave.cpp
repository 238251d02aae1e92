// The last step of transposed convolutions of spjit.torch, in torch's threads.

#include "bindings/ort/interleave.hpp"

#include <algorithm>
#include <cstdint>

#include "spjit.h"

extern "C" void spjit_python_openmp_for(void* user, std::int32_t tasks, spjit_task task,
                                        void* context);

namespace {

using namespace spjit::ort;

struct Planes {
  Interleaving of;
  Tensor x;
  Tensor y;
  std::int32_t parts;
};

/// One of equal parts of all planes.
void interleave_part(void* given, std::int32_t part) {
  const Planes& planes = *static_cast<const Planes*>(given);
  const std::int64_t count = planes.y.shape[0] * planes.y.shape[1];
  const std::int64_t each = (count + planes.parts - 1) / planes.parts;
  const std::int64_t end = std::min(count, (part + 1) * each);
  for (std::int64_t plane = part * each; plane < end; ++plane) {
    interleave_plane(planes.of, planes.x, planes.y, plane);
  }
}

}  // namespace

/// Y of interleave.hpp, contiguous. `shape`: of X, not empty; `form`: rows, columns, crop_rows,
/// crop_columns, groups, which fit. `team`: that of spjit_python_openmp_for; null: one thread.
extern "C" __attribute__((visibility("default"))) void spjit_python_interleave(
    float* x, const std::int64_t* shape, const std::int64_t* form, float* y, std::int32_t threads,
    void* team) noexcept {
  const Interleaving of{
      .phases = {form[0], form[1]}, .crop = {form[2], form[3]}, .groups = form[4]};
  const Shape given(shape, shape + 4);
  Planes planes{of, {x, given}, {y, interleaved_shape(of, given)}, 1};
  if (team == nullptr || threads <= 1) {
    interleave_part(&planes, 0);
    return;
  }
  planes.parts = threads;
  spjit_python_openmp_for(team, threads, interleave_part, &planes);
}
