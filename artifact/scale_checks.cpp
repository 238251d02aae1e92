#include "artifact/scale_checks.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "plan/quantization.hpp"
#include "spjit/data_type.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

void require_zero_point(const char* name, std::int32_t zero_point, DataType type) {
  const DataTypeInfo& bytes = info_of(type);
  const double value = zero_point;
  if (value >= bytes.lowest && value <= bytes.largest) return;
  throw InvalidArgument(fmt::format("{} is {}; expected {} to {}, what {} has", name, zero_point,
                                    bytes.lowest, bytes.largest, bytes.name));
}

}  // namespace

void check_scale_of_c(const KernelInfo& info, const Arguments& arguments) {
  if (!is_byte(info.numerics.c)) {
    if (arguments.c_scale == nullptr && arguments.c_zero_point == 0) return;
    throw InvalidArgument(fmt::format(
        "c_scale or c_zero_point is given; C of this kernel is {}, and only one of i8 or u8 has "
        "them",
        to_string(info.numerics.c)));
  }
  require_zero_point("c_zero_point", arguments.c_zero_point, info.numerics.c);
  if (arguments.c_scale == nullptr) return;
  const float scale = *arguments.c_scale;
  if (scale > 0 && std::isfinite(scale)) return;
  throw InvalidArgument(
      fmt::format("c_scale is {}; expected a finite number above 0", static_cast<double>(scale)));
}

void check_scale_of_b(const KernelInfo& info, const Arguments& arguments) {
  const bool is_given = info.numerics.quantization == Quantization::given;
  if (is_given && arguments.b_scale == nullptr) {
    throw InvalidArgument("b_scale is null; expected the scale of B, one float");
  }
  if (!is_given && (arguments.b_scale != nullptr || arguments.b_zero_point != 0)) {
    throw InvalidArgument(
        "b_scale or b_zero_point is given; this kernel was compiled without "
        "(Quantization::given)");
  }
  require_zero_point("b_zero_point", arguments.b_zero_point, info.numerics.b);
}

}  // namespace spjit
