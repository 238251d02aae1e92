#include "kernels/cuda/code/cuda_code.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <utility>

#include "spjit/error.hpp"

namespace {

using namespace spjit;
using testing::HasSubstr;

constexpr std::array k_two_parameters = {CudaCode::Parameter{"from", CodeType::floats},
                                         CudaCode::Parameter{"to", CodeType::target}};

CudaCode::Texts texts_of(const std::function<void(CudaCode&)>& statements,
                         const Epilogue& epilogue = {}) {
  CudaCode code(90, epilogue);
  code.begin_kernel({"kernel", 128, 2, 8}, k_two_parameters);
  code.read("from");
  code.read("to");
  statements(code);
  code.end_kernel();
  return std::move(code).take();
}

TEST(CudaCode, IsReadTwice) {
  const CudaCode::Texts texts = texts_of([](CudaCode& code) {
    code.set("i", special("tid.x"));
    code.set("inside", compare("lt", "i", 100));
    code.move("from", "from", "i");
    code.load("c0", {"from", 3}, {"inside"});
    code.set("c0", fused("c0", "c0", CodeOperand::of(2)), "inside");
    code.store("c0", {"to", 1}, "inside");
  });

  EXPECT_THAT(texts.ptx, HasSubstr("setp.lt.u32 inside,i,100;\n"));
  EXPECT_THAT(texts.cuda, HasSubstr("bool inside = i < 100u;\n"));
  EXPECT_THAT(texts.ptx, HasSubstr("@inside ld.global.nc.f32 c0,[from+12];\n"));
  EXPECT_THAT(texts.cuda, HasSubstr("c0 = __ldg(from + 3);\n"));
  EXPECT_THAT(texts.ptx, HasSubstr("@inside fma.rn.f32 c0,c0,c0,0f40000000;\n"));
  EXPECT_THAT(texts.cuda, HasSubstr("if (inside) c0 = __fmaf_rn(c0, c0, "));
  EXPECT_THAT(texts.ptx, HasSubstr("@inside st.global.f32 [to+4],c0;\n"));
  EXPECT_THAT(texts.cuda, HasSubstr("if (inside) to[1] = c0;\n"));
  EXPECT_THAT(texts.ptx, HasSubstr(".maxntid 128, 1, 1\n.minnctapersm 2\n"));
  EXPECT_THAT(texts.cuda, HasSubstr("__launch_bounds__(128, 2)"));
}

TEST(CudaCode, DeclaresAVariableWhereItIsFirstSet) {
  const CudaCode::Texts texts = texts_of([](CudaCode& code) {
    code.set("p", compare("eq", 1, 1));
    code.begin_if("p");
    code.set("i", copy(CodeType::u32, 1));
    code.set("i", add("i", 1));
    code.end();
    code.set("i", copy(CodeType::u32, 2));
  });

  EXPECT_THAT(texts.cuda, HasSubstr("    unsigned i = 1u;\n    i = i + 1u;\n  }\n"));
  EXPECT_THAT(texts.cuda, HasSubstr("  unsigned i = 2u;\n"));
  EXPECT_THAT(texts.ptx, HasSubstr(".reg .b32 i;\n"));
}

TEST(CudaCode, RefusesWhatOneOfTheTextsCannotSay) {
  const auto refusal = [](const std::function<void(CudaCode&)>& statements) {
    try {
      static_cast<void>(texts_of(statements));
    } catch (const InvalidArgument& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  const auto set = [](CudaCode& code) { code.set("i", special("tid.x")); };

  EXPECT_THAT(refusal([](CudaCode& code) { code.read("none"); }), HasSubstr("no parameter none"));
  EXPECT_THAT(refusal([](CudaCode& code) { code.move("i", "nothing", 1); }),
              HasSubstr("no variable nothing"));
  EXPECT_THAT(refusal([](CudaCode& code) { code.set("scratch", special("tid.x")); }),
              HasSubstr("a scratch of its own"));
  EXPECT_THAT(refusal([&](CudaCode& code) {
                set(code);
                code.set("i", copy(CodeType::f32, CodeOperand::of(0)));
              }),
              HasSubstr("i has two types"));
  EXPECT_THAT(refusal([](CudaCode& code) {
                code.load(std::array<std::string, 3>{"a", "b", "c"}, {"from"});
              }),
              HasSubstr("3 elements; expected 1, 2 or 4"));
  EXPECT_THAT(refusal([&](CudaCode& code) {
                set(code);
                code.set("p", compare("eq", "i", 0));
                code.set("i", distance("from", "to"), "p");
              }),
              HasSubstr("several instructions for i"));
  EXPECT_THAT(refusal([](CudaCode&) { static_cast<void>(compare("near", 1, 1)); }),
              HasSubstr("no comparison near"));
  EXPECT_THAT(refusal([](CudaCode&) { static_cast<void>(special("warp")); }),
              HasSubstr("no special register warp"));
}

TEST(CudaCode, HasAnActivationOnlyWhereTheEpilogueHas) {
  const auto activate = [](CudaCode& code) {
    code.set("c0", copy(CodeType::f32, CodeOperand::of(1)));
    code.activate(0);
  };

  EXPECT_THAT(texts_of(activate, {.activation = Activation::relu}).cuda,
              HasSubstr("c0 = spjit_activate(c0);\n"));
  EXPECT_THAT(texts_of(activate).cuda, testing::Not(HasSubstr("spjit_activate")));
}

}  // namespace
