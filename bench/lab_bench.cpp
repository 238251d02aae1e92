/// @file
/// Host kernels, ways to call layers, convolutions and whole models beside other libraries:
/// checked, timed interleaved, held against the goals. bench/README.md says how it is called.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <list>
#include <map>
#include <string>

#include "bench/lab/kind.hpp"

int main(int argc, char** argv) {
  using namespace spjit::bench;
  const std::map<std::string, const char*> texts = {
      {"host", "Single matrices, hot, and the goals of host kernels"},
      {"layer", "Layers with layouts, any n, epilogues, batches and values, against plain kernels"},
      {"conv", "Convolutional networks, layer after layer"},
      {"model", "Whole models, layer after layer"}};
  CLI::App app{"Kernels of this CPU beside other libraries and other ways to call them."};
  app.require_subcommand(1);
  std::list<LabOptions> all;
  for (const std::string& kind : all_kinds()) {
    all.push_back(default_options(kind, SPJIT_SOURCE_DIR));
    add_options(*app.add_subcommand(kind, texts.at(kind)), all.back());
  }
  CLI11_PARSE(app, argc, argv);
  try {
    for (LabOptions& options : all) {
      if (!app.got_subcommand(options.kind)) continue;
      options.command = command_line(argc, argv);
      return run_lab(std::move(options));
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "lab_bench: {}\n", error.what());
  }
  return 2;
}
