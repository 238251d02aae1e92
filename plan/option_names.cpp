// The names of enumerations of problems and options.

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "spjit/epilogue.hpp"
#include "spjit/error.hpp"
#include "spjit/layout.hpp"
#include "spjit/options.hpp"

namespace spjit {
namespace {

constexpr std::array k_layouts = {Layout::row_major, Layout::panel_major, Layout::tokens_major};
constexpr std::array k_activations = {
    Activation::none,         Activation::relu,    Activation::gelu_erf,   Activation::gelu_tanh,
    Activation::silu,         Activation::clamp,   Activation::hard_swish, Activation::leaky_relu,
    Activation::hard_sigmoid, Activation::sigmoid, Activation::tanh};

}  // namespace

Layout parse_layout(std::string_view name) {
  for (const Layout layout : k_layouts) {
    if (name == to_string(layout)) return layout;
  }
  throw InvalidArgument(
      fmt::format("layout \"{}\" is unknown; expected features, panels or tokens", name));
}

std::string_view to_string(Layout layout) {
  switch (layout) {
    case Layout::row_major:
      return "features";
    case Layout::panel_major:
      return "panels";
    case Layout::tokens_major:
      return "tokens";
  }
  return "?";
}

Activation parse_activation(std::string_view name) {
  for (const Activation activation : k_activations) {
    if (name == to_string(activation)) return activation;
  }
  throw InvalidArgument(fmt::format(
      "activation \"{}\" is unknown; expected none, relu, gelu, gelu-tanh, silu, clamp, "
      "hard-swish, leaky-relu, hard-sigmoid, sigmoid or tanh",
      name));
}

std::string_view to_string(Activation activation) {
  switch (activation) {
    case Activation::none:
      return "none";
    case Activation::relu:
      return "relu";
    case Activation::gelu_erf:
      return "gelu";
    case Activation::gelu_tanh:
      return "gelu-tanh";
    case Activation::silu:
      return "silu";
    case Activation::clamp:
      return "clamp";
    case Activation::hard_swish:
      return "hard-swish";
    case Activation::leaky_relu:
      return "leaky-relu";
    case Activation::hard_sigmoid:
      return "hard-sigmoid";
    case Activation::sigmoid:
      return "sigmoid";
    case Activation::tanh:
      return "tanh";
  }
  return "?";
}

SearchMode parse_search(std::string_view name) {
  for (const SearchMode mode :
       {SearchMode::instant, SearchMode::ranked, SearchMode::proxy, SearchMode::exhaustive}) {
    if (name == to_string(mode)) return mode;
  }
  throw InvalidArgument(fmt::format(
      "search mode \"{}\" is unknown; expected instant, ranked, proxy or exhaustive", name));
}

std::string_view to_string(SearchMode mode) {
  switch (mode) {
    case SearchMode::instant:
      return "instant";
    case SearchMode::ranked:
      return "ranked";
    case SearchMode::proxy:
      return "proxy";
    case SearchMode::exhaustive:
      return "exhaustive";
  }
  return "?";
}

CompileWhen parse_compile_when(std::string_view name) {
  for (const CompileWhen when : {CompileWhen::needed, CompileWhen::never}) {
    if (name == to_string(when)) return when;
  }
  throw InvalidArgument(fmt::format("compile is \"{}\"; expected needed or never", name));
}

std::string_view to_string(CompileWhen when) {
  switch (when) {
    case CompileWhen::needed:
      return "needed";
    case CompileWhen::never:
      return "never";
  }
  return "?";
}

VerifyMode parse_verify(std::string_view name) {
  for (const VerifyMode mode : {VerifyMode::none, VerifyMode::sampled, VerifyMode::full}) {
    if (name == to_string(mode)) return mode;
  }
  throw InvalidArgument(
      fmt::format("verify mode \"{}\" is unknown; expected none, sampled or full", name));
}

std::string_view to_string(VerifyMode mode) {
  switch (mode) {
    case VerifyMode::none:
      return "none";
    case VerifyMode::sampled:
      return "sampled";
    case VerifyMode::full:
      return "full";
  }
  return "?";
}

}  // namespace spjit
