#include "rankmodel/training/xgboost_booster.hpp"

#include <fmt/format.h>
#include <xgboost/c_api.h>

#include <limits>

#include "spjit/error.hpp"

namespace spjit {
namespace {

// XGBoost tells where it failed over many lines; the first says what.
void check(int status, const char* what) {
  if (status == 0) return;
  const std::string text = XGBGetLastError();
  throw Error(fmt::format("XGBoost {} failed to {}: {}", xgboost_version(), what,
                          text.substr(0, text.find('\n'))));
}

}  // namespace

QuietXgboost::QuietXgboost() {
  const char* before = nullptr;
  check(XGBGetGlobalConfig(&before), "tell its configuration");
  before_ = before;
  check(XGBSetGlobalConfig(R"({"verbosity": 0})"), "take its configuration");
}

QuietXgboost::~QuietXgboost() { static_cast<void>(XGBSetGlobalConfig(before_.c_str())); }

std::string xgboost_version() {
  int major = 0;
  int minor = 0;
  int patch = 0;
  XGBoostVersion(&major, &minor, &patch);
  return fmt::format("{}.{}.{}", major, minor, patch);
}

void XgboostMatrix::Free::operator()(void* handle) const noexcept {
  static_cast<void>(XGDMatrixFree(handle));
}

XgboostMatrix::XgboostMatrix(const TrainingData& data) {
  DMatrixHandle handle = nullptr;
  check(XGDMatrixCreateFromMat_omp(data.rows.data(), data.grades.size(), data.columns,
                                   std::numeric_limits<float>::quiet_NaN(), &handle, 1),
        "take the rows");
  handle_.reset(handle);
  const std::vector<float> labels(data.grades.begin(), data.grades.end());
  check(XGDMatrixSetFloatInfo(handle, "label", labels.data(), labels.size()), "take the grades");
  const std::vector<unsigned> sizes(data.group_sizes.begin(), data.group_sizes.end());
  check(XGDMatrixSetUIntInfo(handle, "group", sizes.data(), sizes.size()), "take the groups");
  if (data.margin.empty()) return;
  check(XGDMatrixSetFloatInfo(handle, "base_margin", data.margin.data(), data.margin.size()),
        "take the margin");
}

void XgboostBooster::Free::operator()(void* handle) const noexcept {
  static_cast<void>(XGBoosterFree(handle));
}

XgboostBooster::XgboostBooster(std::span<const XgboostMatrix* const> matrices,
                               const XgboostParameters& parameters) {
  std::vector<DMatrixHandle> handles;
  for (const XgboostMatrix* matrix : matrices) handles.push_back(matrix->handle());
  BoosterHandle handle = nullptr;
  check(XGBoosterCreate(handles.data(), handles.size(), &handle), "begin");
  handle_.reset(handle);
  for (const auto& [name, value] : parameters) {
    check(XGBoosterSetParam(handle, name.c_str(), value.c_str()), "take a parameter");
  }
}

void XgboostBooster::update(int round, const XgboostMatrix& matrix) {
  check(XGBoosterUpdateOneIter(handle_.get(), round, matrix.handle()), "grow a tree");
}

void XgboostBooster::boost(const XgboostMatrix& matrix, std::vector<float> gradients,
                           std::vector<float> hessians) {
  check(XGBoosterBoostOneIter(handle_.get(), matrix.handle(), gradients.data(), hessians.data(),
                              gradients.size()),
        "grow a tree");
}

std::vector<float> XgboostBooster::predict(const XgboostMatrix& matrix) const {
  constexpr const char* k_margin =
      R"({"type": 1, "training": false, "iteration_begin": 0, "iteration_end": 0,
          "strict_shape": false})";
  const bst_ulong* shape = nullptr;
  bst_ulong dimensions = 0;
  const float* scores = nullptr;
  check(XGBoosterPredictFromDMatrix(handle_.get(), matrix.handle(), k_margin, &shape, &dimensions,
                                    &scores),
        "predict");
  std::size_t count = dimensions > 0 ? 1 : 0;
  for (bst_ulong i = 0; i < dimensions; ++i) count *= shape[i];
  return {scores, scores + count};
}

std::string XgboostBooster::json() const {
  bst_ulong length = 0;
  const char* text = nullptr;
  check(XGBoosterSaveModelToBuffer(handle_.get(), R"({"format": "json"})", &length, &text),
        "save the model");
  return {text, length};
}

}  // namespace spjit
