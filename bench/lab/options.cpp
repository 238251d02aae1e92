#include "bench/lab/options.hpp"

#include "bench/convolution/conv_peer.hpp"
#include "bench/side_by_side/peer_folders.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

const std::vector<std::string> k_families = {"dense", "compact", "unrolled", "csr"};

void set_host(LabOptions& options) {
  options.n = {128, 512};
  options.peers = {"csr", "openblas"};
  options.timing.budget_ms = 400;
  options.timing.alone_warm_up_ms = 5;
  options.timing.alone_min_batch_us = 200;
  options.timing.alone_min_samples = 7;
}

void set_layer(LabOptions& options) {
  options.only = {"minilm-50",      "minilm-80",      "minilm-90", "transformer-70",
                  "transformer-90", "transformer-98", "rn50"};
}

void set_conv(LabOptions& options) {
  options.n = {1, 8};
  options.peers = all_conv_peer_names();
  options.families = k_families;
  options.timing.budget_ms = 20'000;  // a pass of all libraries takes seconds
}

void set_model(LabOptions& options) {
  options.n = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
  options.peers = {"spjit", "openblas", "onednn", "mkl-dense", "mkl-sparse", "onnxruntime"};
  options.families = k_families;
}

struct KindDefaults {
  const char* name;
  void (*set)(LabOptions&);
};

constexpr KindDefaults k_kinds[] = {
    {"host", set_host}, {"layer", set_layer}, {"conv", set_conv}, {"model", set_model}};

}  // namespace

std::vector<std::string> all_kinds() {
  std::vector<std::string> names;
  for (const KindDefaults& kind : k_kinds) names.emplace_back(kind.name);
  return names;
}

LabOptions default_options(const std::string& kind, const std::filesystem::path& repository) {
  LabOptions options;
  options.kind = kind;
  options.data = repository / "../shared/data";
  options.networks = repository / "build/networks";
  options.settings = side_by_side::settings_of(repository);
  for (const KindDefaults& known : k_kinds) {
    if (kind == known.name) known.set(options);
  }
  return options;
}

void add_options(CLI::App& app, LabOptions& options) {
  const bool is_host = options.kind == "host";
  const bool is_layer = options.kind == "layer";
  const bool is_conv = options.kind == "conv";
  const auto add_list = [&](const char* name, auto& list, const char* text) {
    return app.add_option(name, list, text)->delimiter(',')->capture_default_str();
  };
  app.add_option("--data", options.data, "Folder with the matrices");
  add_list("--only", options.only, "Only workloads whose name contains one of these");
  add_list(is_conv ? "--batch,--n" : "--n", options.n,
           is_layer  ? "Only these of the comparisons' numbers of tokens"
           : is_conv ? "Images at once"
                     : "Columns of B")
      ->check(CLI::PositiveNumber);
  add_list("--threads", options.threads, "Numbers of threads")->check(CLI::PositiveNumber);
  if (!is_host) {
    app.add_option("--networks", options.networks, "Folders of matrices, a network each");
    app.add_flag("--hot", options.hot, "Also time layers alone, again and again");
  }
  if (is_conv) {
    add_list("--sparsity", options.sparsities, "Of the networks, in percent")
        ->check(CLI::Range(0, 99));
  }
  if (is_layer) {
    add_list("--compare", options.comparisons, "Only these comparisons");
  } else {
    add_list("--peers", options.peers, "Libraries to measure");
    if (!is_conv) side_by_side::add_mkl_folder(app, options.settings);
    side_by_side::add_dense_folders(app, options.settings);
  }
  if (!options.families.empty()) {
    add_list("--families", options.families,
             is_conv
                 ? "Families of spjit to measure by themselves; with -nhwc behind in that layout"
                 : "Families of spjit to measure by themselves");
  }
  app.add_option_function<std::string>(
      "--target",
      [&options](const std::string& name) { options.settings.target = Target::parse(name); },
      "What spjit compiles for, such as host-avx2");
  app.add_option("--budget-ms", options.timing.budget_ms, "Timing of all ways under one condition")
      ->capture_default_str();
  add_run_options(
      app, options,
      {.result = "KIND",
       .begun = "nothing new",
       .quick = "Seconds: small generated workloads, few samples: no time means anything"});
}

}  // namespace spjit::bench
