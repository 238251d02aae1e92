#include "rankmodel/training/xgboost_booster.hpp"

#include <fmt/format.h>
#include <xgboost/c_api.h>

#include <limits>

#include "base/json_text.hpp"
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

using nlohmann::json;

struct XgboostTree {
  std::vector<std::int32_t> left;  // -1: a leaf
  std::vector<std::int32_t> right;
  std::vector<std::int32_t> feature;
  std::vector<float> condition;  // threshold, or what a leaf adds
  std::vector<int> default_left;
  std::vector<int> type;  // 1: a set of categories
};

XgboostTree fields_of(const json& tree) {
  XgboostTree fields;
  tree.at("left_children").get_to(fields.left);
  tree.at("right_children").get_to(fields.right);
  tree.at("split_indices").get_to(fields.feature);
  tree.at("split_conditions").get_to(fields.condition);
  tree.at("default_left").get_to(fields.default_left);
  tree.at("split_type").get_to(fields.type);
  return fields;
}

// Breadth first from the root, so that children follow their parent and each other.
RankTree tree_of(const json& value) {
  const XgboostTree from = fields_of(value);
  RankTree tree;
  std::vector<std::int32_t> queue{0};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const auto at = static_cast<std::size_t>(queue[i]);
    const std::int32_t left = from.left.at(at);
    if (left < 0) {
      tree.nodes.push_back({.value = from.condition.at(at)});
      continue;
    }
    if (from.type.at(at) != 0) throw Error("XGBoost split on categories, which spjit has none of");
    if (queue.size() > k_most_rank_nodes) throw Error("a tree of XGBoost's is too large");
    tree.nodes.push_back({.value = from.condition.at(at),
                          .feature = from.feature.at(at),
                          .left = static_cast<std::int32_t>(queue.size()),
                          .default_left = from.default_left.at(at) != 0});
    queue.push_back(left);
    queue.push_back(from.right.at(at));
  }
  return tree;
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
  check(XGDMatrixSetFloatInfo(handle, "label", data.labels.data(), data.labels.size()),
        "take the labels");
  if (data.weights.empty()) {
    const std::vector<unsigned> sizes(data.group_sizes.begin(), data.group_sizes.end());
    check(XGDMatrixSetUIntInfo(handle, "group", sizes.data(), sizes.size()), "take the groups");
  } else {  // with groups XGBoost expects a weight a group
    check(XGDMatrixSetFloatInfo(handle, "weight", data.weights.data(), data.weights.size()),
          "take the weights");
  }
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

std::vector<RankTree> trees_of_xgboost(std::string_view text) {
  try {
    const json model = json::parse(text);
    const json& booster = model.at("learner").at("gradient_booster");
    if (booster.at("name") != "gbtree") throw Error("XGBoost's booster is not gbtree");
    std::vector<RankTree> trees;
    for (const json& tree : booster.at("model").at("trees")) trees.push_back(tree_of(tree));
    return trees;
  } catch (const json::exception& error) {
    throw Error(fmt::format("not a model of XGBoost's: {}", json_problem(error.what())));
  } catch (const std::out_of_range& error) {
    throw Error(fmt::format("a tree of XGBoost's is not whole: {}", error.what()));
  }
}

}  // namespace spjit
