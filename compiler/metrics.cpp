#include "compiler/metrics.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace spjit {
namespace {

std::string_view name_of(CachePlace place) {
  switch (place) {
    case CachePlace::directory:
      return "directory";
    case CachePlace::layer:
      return "layer";
    case CachePlace::remote:
      break;
  }
  return "remote";
}

std::string hits_of(CachePlace place) {
  return fmt::format("spjit_cache_hits_total{{place=\"{}\"}}", name_of(place));
}

/// What a sample is one of: up to its labels.
std::string_view metric_of(std::string_view sample) { return sample.substr(0, sample.find('{')); }

std::string_view help_of(std::string_view metric) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 15> k_help = {{
      {"spjit_cache_hits_total", "Kernels that were taken from a place."},
      {"spjit_cache_misses_total", "Kernels that no place had, or that could not be used."},
      {k_hit_seconds, "Seconds from a problem to a kernel that was there."},
      {k_compiled, "Kernels that were compiled."},
      {k_compile_seconds, "Seconds from a problem to a kernel that was compiled."},
      {k_refused, "Kernels that were in no cache and not to be compiled."},
      {"spjit_remote_hits_total", "Kernels that were taken from the server."},
      {"spjit_remote_misses_total", "Kernels that were not taken from the server, by reason."},
      {"spjit_remote_bytes_total", "Bytes of kernels from and to the server."},
      {"spjit_remote_pushed_total", "Kernels on their way to the server, by outcome."},
      {"spjit_cache_kernels", "Kernels in the cache directory."},
      {"spjit_cache_bytes", "Bytes of the kernels in the cache directory."},
      {"spjit_remote_up", "1 if the server answers."},
      {"spjit_remote_answer_seconds", "Seconds of the server for a kernel that it has not."},
      {"spjit_remote_left_alone", "1 while the server is not asked, because it failed."},
  }};
  for (const auto& [name, help] : k_help) {
    if (name == metric) return help;
  }
  return "";
}

}  // namespace

MetricsCounter::MetricsCounter() {
  for (const CachePlace place : {CachePlace::directory, CachePlace::layer, CachePlace::remote}) {
    counts_[hits_of(place)] = 0;
  }
  for (const std::string_view sample :
       {k_absent, k_unusable, k_refused, k_compiled, k_compile_seconds, k_hit_seconds}) {
    counts_[std::string(sample)] = 0;
  }
}

void MetricsCounter::add(std::string_view sample, double count) {
  const std::lock_guard lock(mutex_);
  counts_[std::string(sample)] += count;
}

void MetricsCounter::add_hit(CachePlace place) { add(hits_of(place)); }

Metrics MetricsCounter::all() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void add_remote(const RemoteServer& server, Metrics& metrics) {
  const RemoteCounts counts = server.counts();
  const auto add = [&](const std::string& sample, std::int64_t count) {
    metrics[sample] = static_cast<double>(count);
  };
  add("spjit_remote_hits_total", counts.hits);
  for (std::size_t i = 0; i < counts.misses.size(); ++i) {
    add(fmt::format("spjit_remote_misses_total{{reason=\"{}\"}}",
                    to_string(static_cast<RemoteMiss>(i))),
        counts.misses[i]);
  }
  add("spjit_remote_bytes_total{direction=\"in\"}", counts.bytes_in);
  add("spjit_remote_bytes_total{direction=\"out\"}", counts.bytes_out);
  add("spjit_remote_pushed_total{outcome=\"written\"}", counts.written);
  add("spjit_remote_pushed_total{outcome=\"there_already\"}", counts.there_already);
  add("spjit_remote_pushed_total{outcome=\"not_written\"}", counts.not_written);
  add("spjit_remote_pushed_total{outcome=\"dropped\"}", counts.dropped);
  add("spjit_remote_left_alone", server.is_left_alone() ? 1 : 0);
}

std::string prometheus_text(const Metrics& metrics) {
  std::string text;
  std::string_view last;
  for (const auto& [sample, value] : metrics) {  // those of one metric follow one another
    const std::string_view metric = metric_of(sample);
    if (metric != last) {
      if (const std::string_view help = help_of(metric); !help.empty()) {
        text += fmt::format("# HELP {} {}\n", metric, help);
      }
      text +=
          fmt::format("# TYPE {} {}\n", metric, metric.ends_with("_total") ? "counter" : "gauge");
    }
    last = metric;
    text += fmt::format("{} {}\n", sample, value);
  }
  return text;
}

}  // namespace spjit
