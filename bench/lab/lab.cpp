#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/host_cpu.hpp"
#include "bench/host/surroundings.hpp"
#include "bench/json_file.hpp"
#include "bench/lab/kind.hpp"
#include "bench/lab/text.hpp"
#include "bench/side_by_side/result_file.hpp"
#include "spjit/error.hpp"

namespace spjit::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* k_lab_schema = "spjit-lab-1";

/// What is measured, and how far it is.
class Lab {
 public:
  Lab(LabOptions options, Kind& kind) : options_(std::move(options)), kind_(kind) {
    json device = side_by_side::host_device(host_cpu(), options_.settings.target, load_average());
    kind_.describe_device(device);
    const std::vector<side_by_side::PeerInfo> libraries = kind_.libraries();
    document_ = side_by_side::new_document(options_.command, device, libraries);
    document_["schema"] = k_lab_schema;
    document_["kind"] = options_.kind;
    document_["workloads"] = document_["goals"] = json::array();
    if (options_.json.empty()) {
      options_.json =
          options_.kind + "-" + file_name_of(device.at("name").get<std::string>()) + ".json";
    }
    if (options_.append) go_on();
    print_start(device, libraries);
  }

  int run() {
    std::vector<WorkloadEntry> workloads = kind_.workloads();
    if (!options_.quick) {
      std::erase_if(workloads, [&](const WorkloadEntry& entry) {
        return !is_wanted(entry.name, options_.only);
      });
    }
    if (workloads.empty()) {
      throw Error("no workload matches; scripts/data/make_networks.sh makes networks");
    }
    for (const WorkloadEntry& entry : workloads) run_workload(entry);
    save();
    if (left_ > 0) {
      fmt::print("stopped after {} minutes: {} conditions are left, --append goes on\n",
                 options_.max_minutes, left_);
    }
    fmt::print("wrote {}\n", options_.json.string());
    return failures_ == 0 ? 0 : 1;
  }

 private:
  void go_on() {
    const json earlier = side_by_side::earlier_document(options_.json, document_);
    if (earlier.at("kind") != options_.kind) {
      throw Error(fmt::format("{}: has cases of kind {}, expected {}", options_.json.string(),
                              earlier.at("kind").get<std::string>(), options_.kind));
    }
    for (const char* list : {"cases", "workloads"}) document_[list] = earlier.at(list);
  }

  static void print_start(const json& device,
                          const std::vector<side_by_side::PeerInfo>& libraries) {
    fmt::print("on {}, {}\n", device.at("name").get<std::string>(),
               device.at("isa").get<std::string>());
    const auto load = device.at("load_average").get<double>();
    if (load > k_busy_load_average) {
      fmt::print("WARNING: load average {:.1f}: other work disturbs these figures\n", load);
    }
    side_by_side::print_peers(libraries);
  }

  [[nodiscard]] bool has(const std::string& workload, const Conditions& conditions) const {
    return std::ranges::any_of(document_.at("cases"), [&](const json& other) {
      return other.at("workload") == workload &&
             other.value("comparison", "") == conditions.comparison &&
             other.at("n") == conditions.n && other.at("threads") == conditions.threads &&
             other.at("caches") == (conditions.hot ? "hot" : "cold");
    });
  }

  /// What fails is reported and left out; the others go on.
  void run_workload(const WorkloadEntry& entry) {
    std::unique_ptr<Workload> workload;
    for (const Conditions& conditions : entry.conditions) {
      if (has(entry.name, conditions)) continue;
      if (!has_time(options_.max_minutes, begin_)) {
        ++left_;
        continue;
      }
      try {
        if (!workload) workload = loaded(entry);
        keep(entry.name, conditions, workload->measure(conditions));
      } catch (const Error& error) {
        ++failures_;
        fmt::print("FAILED: {} n={} t={}: {}\n", entry.name, conditions.n, conditions.threads,
                   error.what());
      }
      std::fflush(stdout);
    }
    if (workload) save();
  }

  std::unique_ptr<Workload> loaded(const WorkloadEntry& entry) {
    auto workload = entry.load();
    json description = workload->describe();
    const bool is_there = std::ranges::any_of(
        document_["workloads"], [&](const json& other) { return other.at("name") == entry.name; });
    if (!description.is_null() && !is_there) {
      description["name"] = entry.name;
      document_["workloads"].push_back(std::move(description));
    }
    return workload;
  }

  void keep(const std::string& workload, const Conditions& conditions, std::vector<Case> cases) {
    for (Case& one : cases) {
      one.workload = workload;
      one.comparison = conditions.comparison;
      one.n = conditions.n;
      document_["cases"].push_back(to_json(one));
      for (const WayTiming& timing : one.timings) {
        failures_ += timing.failed.starts_with("wrong") ? 1 : 0;
      }
    }
    fmt::print("{}", to_text(cases));
  }

  void save() const { save_json(options_.json, document_); }

  LabOptions options_;
  Kind& kind_;
  json document_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int failures_ = 0;
  int left_ = 0;  ///< conditions that there was no time for
};

}  // namespace

std::unique_ptr<Kind> make_kind(const LabOptions& options) {
  if (options.kind == "host") return make_host_kind(options);
  if (options.kind == "layer") return make_layer_kind(options);
  if (options.kind == "conv") return make_conv_kind(options);
  if (options.kind == "model") return make_model_kind(options);
  throw InvalidArgument(
      fmt::format("no kind '{}'; expected {}", options.kind, fmt::join(all_kinds(), ", ")));
}

std::vector<Conditions> all_conditions(const LabOptions& options) {
  std::vector<Conditions> all;
  for (const std::int64_t n : options.n) {
    for (const int threads : options.threads) {
      all.push_back({{}, n, threads, false});
      if (options.hot) all.push_back({{}, n, threads, true});
    }
  }
  return all;
}

int run_lab(LabOptions options) {
  side_by_side::prepare_environment();
  const ScratchDirectory scratch("spjit-lab");
  fs::create_directory(scratch.path());
  options.settings.scratch = scratch.path();
  if (options.quick) {
    options.timing.budget_ms = 0;
    options.timing.min_samples = 2;
  }
  const std::unique_ptr<Kind> kind = make_kind(options);
  return Lab(std::move(options), *kind).run();
}

}  // namespace spjit::bench
