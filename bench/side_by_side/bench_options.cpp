#include "bench/side_by_side/bench_options.hpp"

#include "bench/side_by_side/peer_folders.hpp"

namespace spjit::side_by_side {

Options default_options(const std::filesystem::path& repository) {
  Options options;
  options.sets.data = repository / "../shared/data";
  options.sets.paper_set = repository / "bench/paper_set.json";
  options.settings = settings_of(repository);
  options.settings.hot = true;  // most of what is timed
  return options;
}

void add_options(CLI::App& app, Options& options) {
  app.add_option("--data", options.sets.data, "Folder with dlmc and weights");
  app.add_option("--paper-set", options.sets.paper_set, "The shapes of the paper's evaluation");
  app.add_option("--set", options.set, "dlmc, paper, tokens, weights")
      ->check(CLI::IsMember({"dlmc", "paper", "tokens", "weights"}));
  app.add_flag("--all", options.sets.all, "Of the paper's set: all sparsities");
  app.add_option("--only", options.only, "Only matrices whose name contains one of these");
  app.add_option("--n", options.sets.n, "Columns of B")->check(CLI::PositiveNumber);
  app.add_option("--threads", options.threads, "Numbers of threads")->check(CLI::PositiveNumber);
  app.add_option("--peers", options.peers, "Libraries to measure (default: all)");
  CLI::Option* gpu = app.add_option("--gpu", options.gpu, "Measure on this GPU, not the host");
  app.add_flag("--rehearse", options.rehearse,
               "With --gpu on the emulated driver: check, time nothing")
      ->needs(gpu);
  app.add_flag("--cold", options.is_cold,
               "With --gpu: no product finds its A in L2, which copies of A take turns for")
      ->needs(gpu);
  CLI::Option* target =
      app.add_option("--target", options.target,
                     "host, host-avx512, host-avx2, host-generic; of cubins a card: sm_90:h100");
  app.add_option("--cubins", options.cubins, "With --gpu: load cubins from this folder")
      ->needs(gpu)
      ->needs(target);
  app.add_option("--precompile", options.precompile,
                 "Only compile the cubins into this folder; needs no GPU")
      ->needs(target)
      ->excludes(gpu);
  app.add_option("--search", options.search, "How spjit chooses: instant, ranked, proxy, ...");
  add_mkl_folder(app, options.settings);
  add_dense_folders(app, options.settings);
  app.add_option("--python", options.settings.pythons, "Pythons to look for scipy in");
  app.add_option("--budget-ms", options.measure.budget_ms, "Warm timing of a case");
  app.add_option("--cold-runs", options.measure.cold_runs, "Cold runs of a library; 0: none")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--shuffle", options.shuffle,
                 "Take the matrices in an order drawn with this seed: what a run that is cut off "
                 "has is a sample of all");
  add_run_options(app, options,
                  {.result = "side-by-side",
                   .begun = "no other matrix",
                   .quick = "A representative few of DLMC: two minutes"});
}

}  // namespace spjit::side_by_side
