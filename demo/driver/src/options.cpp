#include "options.hpp"

#include "qm/base/option_range.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace qm::demo {

Options parse(int argc, char** argv) {
  Options o;
  CLI::App app{
      "Replays busy hours of GPU jobs through the whole suite on a simulated fleet: five services, a bus, agents, a "
      "Kubernetes API and a cloud API. Reports wait times, utilization, losses and a chargeback that equals the provider's "
      "bill. Exit 0: every law held. 1: one is violated. 2: it could not run.",
      "./qm demo"};
  bool no_faults = false;
  app.add_option("--trace", o.trace,
                 "CSV with submit_s, duration_s, num_gpus, vc; default: hours drawn from a model of Philly")
      ->check(CLI::ExistingFile);
  ranged(app.add_option("--from", o.from_s, "window start in trace seconds; default: the busiest hours with gangs"),
         at_least<std::int64_t>(0, "seconds"));
  ranged(app.add_option("--until", o.until_s, "window end in trace seconds"), at_least<std::int64_t>(1, "seconds"));
  ranged(app.add_option("--hours", o.hours, "length of the window in hours"), OptionRange<int>(1, 48, "hours"))
      ->capture_default_str();
  ranged(app.add_option("--jobs", o.jobs, "limit of arriving jobs, chosen evenly"), at_least<int>(0, "jobs"));
  ranged(app.add_option("--nodes", o.nodes, "8-GPU nodes; default: fewer than the jobs need, so that some are pending"),
         at_least<int>(0, "nodes"));
  ranged(app.add_option("--boot-seconds", o.boot_s,
                        "domain seconds until a launched instance is a node, up to twice that"),
         at_least<int>(0, "seconds"))
      ->capture_default_str();
  ranged(app.add_option("--spot-nodes", o.spot_nodes, "of them spot"), at_least<int>(0, "nodes"))
      ->capture_default_str();
  ranged(app.add_option("--speed", o.speed, "domain seconds a second"),
         OptionRange<double>(1.0, 1000.0, "seconds in a second"))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "of the drawn hours and the faults")->capture_default_str();
  ranged(app.add_option("--replicas", o.replicas, "replicas of each service: one leader, the others standby"),
         OptionRange<int>(1, 3, "processes"))
      ->capture_default_str();
  app.add_option("--bus", o.bus, "postgres or kafka (./qm peers kafka gets it)")
      ->check(CLI::IsMember({"postgres", "kafka"}))
      ->capture_default_str();
  app.add_option(
         "--kube", o.kube,
         "fleet: the simulated API server. peer: a real control plane with kwok (./qm peers kubernetes gets it), "
         "kubeconfig:PATH: an existing cluster; both in real time, with short jobs instead of a trace")
      ->capture_default_str();
  ranged(app.add_option("--pods", o.pods, "with a real --kube: at least so many pods in all"), at_least<int>(1, "pods"))
      ->capture_default_str();
  ranged(app.add_option("--spread", o.spread_s,
                        "with a real --kube: seconds within which they arrive; default: 30 pods a second"),
         at_least<std::int64_t>(1, "seconds"));
  ranged(app.add_option("--limit", o.limit_s, "with a real --kube: seconds after which all must have ended"),
         at_least<std::int64_t>(1, "seconds"))
      ->capture_default_str();
  app.add_option("--agent-set", o.agent_settings, "KEY=VALUE, a setting of every agent; may be repeated")
      ->allow_extra_args(false);
  app.add_option(
      "--postgres", o.postgres,
      "conninfo of an empty database of a running server; default: a private server that does not sync to disk");
  app.add_option("--pools", o.pools_file,
                 "NodePools and node classes for the autoscaler, YAML, in place of the one for bursts")
      ->check(CLI::ExistingFile);
  app.add_option("--json", o.json_file, "write the report here as JSON");
  app.add_option("--dir", o.dir, "logs, history and endpoints of the run")->capture_default_str();
  ranged(app.add_option("--random-kills", o.random_kills,
                        "SIGKILL so many random processes of the suite instead of one service of each kind"),
         at_least<int>(0, "processes"));
  ranged(app.add_option(
             "--interrupt", o.interrupt_percent,
             "percent of the nodes whose spot capacity is reclaimed at once, instead of two nodes; the work lost "
             "must be less than a tenth of that of restarts from zero"),
         OptionRange<int>(1, 90, "percent"));
  app.add_flag("--no-faults", no_faults, "no injected faults");
  app.add_flag("--keep", o.keep, "leave all processes running for qmctl; ./qm down stops them");
  app.add_flag("--up", o.up, "only start the suite and leave it running");
  app.add_flag("--down", o.down, "stop the processes that --keep or --up left");
  try {
    app.parse(argc, argv);
    if (o.kube != "fleet" && o.kube != "peer" && !o.kube.starts_with("kubeconfig:"))
      throw CLI::ValidationError("--kube is fleet, peer or kubeconfig:PATH");
    if (o.nodes == 0 && !o.up) throw CLI::ValidationError("--nodes 0 needs --up: there is no job without nodes");
    if ((o.from_s >= 0) != (o.until_s >= 0))
      throw CLI::ValidationError("--from needs --until, and --until needs --from");
    if (o.from_s >= 0 && o.until_s <= o.from_s) throw CLI::ValidationError("--until must be after --from");
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    std::exit(code == 0 ? 0 : 2);
  }
  o.faults = !no_faults;
  return o;
}

}  // namespace qm::demo
