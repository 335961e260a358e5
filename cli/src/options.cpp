// The command line: with capacity_options.cpp the only file that uses CLI11.
#include "options.hpp"

#include "capacity_options.hpp"
#include "qm/base/option_range.hpp"
#include "qm/cli/run.hpp"
#include "qm/config/manifest.hpp"
#include "qm/model/quantity.hpp"
#include "qm/wire/words.hpp"
#include "words.hpp"

#include <CLI/CLI.hpp>

#include <array>
#include <cctype>

namespace qm::cli {
namespace {

constexpr std::array kTopics{"qm.workload", "qm.placement", "qm.node", "qm.capacity", "qm.gpu", "qm.spot", "qm.cost"};
constexpr std::int64_t kMostPods = 100'000;
constexpr std::chrono::hours kLongestTimeout{24};

[[noreturn]] void refuse(const std::string& what) { throw CLI::ValidationError(what); }

WorkloadName parse_name(const std::string& text) {
  const auto slash = text.find('/');
  WorkloadName name{slash == std::string::npos ? "default" : text.substr(0, slash),
                    slash == std::string::npos ? text : text.substr(slash + 1)};
  if (name.ns.empty() || name.name.empty() || name.name.find('/') != std::string::npos)
    refuse(fmt::format("'{}' is not a valid workload name; write NAMESPACE/NAME", text));
  return name;
}

Duration parse_time(const std::string& flag, const std::string& text) {
  const auto parsed = config::parse_duration(text);
  if (!parsed) refuse(fmt::format("{}: {}", flag, parsed.error().message));
  if (*parsed <= Duration::zero() || *parsed > Duration(std::chrono::hours(24 * 365)))
    refuse(fmt::format("{}: {} is out of range", flag, text));
  return *parsed;
}

std::int64_t parse_quantity(const std::string& flag, const std::string& text, bool milli) {
  const auto parsed = Quantity::parse(text);
  if (!parsed) refuse(fmt::format("{}: {}", flag, parsed.error().message));
  if (parsed->negative()) refuse(fmt::format("{}: {} is negative", flag, text));
  return milli ? parsed->milli() : parsed->units();
}

template <class Enum>
Enum parse_enum(const std::string& flag, const std::string& text) {
  const auto& type = *google::protobuf::GetEnumDescriptor<Enum>();
  const auto number = wire::number_of(type, text);
  if (!number) refuse(fmt::format("{}: '{}' is not one of {}", flag, text, fmt::join(wire::words_of(type), ", ")));
  return static_cast<Enum>(*number);
}

/// "Requested, Running, Stopped or Failed": the values of an option, as the tables show them.
template <class Enum>
std::string one_of(std::initializer_list<Enum> except = {}) {
  const auto& type = *google::protobuf::GetEnumDescriptor<Enum>();
  auto words = wire::words_of(type);
  for (const Enum value : except) std::erase(words, wire::word_of(value));
  const std::string last = words.back();
  words.pop_back();
  return fmt::format("{} or {}", fmt::join(words, ", "), last);
}

/// "2026-11", the name of a statement.
std::string check_period(const std::string& text) {
  const auto digit = [&](std::size_t i) { return std::isdigit(static_cast<unsigned char>(text[i])) != 0; };
  const bool shaped =
      text.size() == 7 && text[4] == '-' && digit(0) && digit(1) && digit(2) && digit(3) && digit(5) && digit(6);
  const int month = shaped ? std::stoi(text.substr(5)) : 0;
  return month >= 1 && month <= 12 ? std::string() : fmt::format("'{}' is not a valid period; write YYYY-MM", text);
}

/// Reads one command line: CLI11 fills the texts, and the reader converts them to a verb. One member holds the flag
/// of the same name of every verb, because only one verb is given.
class Reader {
 public:
  Reader() {
    app_.fallthrough();
    app_.allow_extras();  // so that an unknown verb gets our message, not "a subcommand is required"
    app_.add_option("--endpoints", options_.endpoints, "JSON file with the services' addresses")
        ->envname("QM_ENDPOINTS")
        ->capture_default_str();
    app_.add_option("-o,--output", format_, "table, json or yaml")
        ->check(CLI::IsMember({"table", "json", "yaml"}))
        ->capture_default_str();
    app_.add_option("--timeout", timeout_, "time limit of the whole command, retries included")->capture_default_str();
    security_options();
    change_verbs();
    order_verbs();
    preset_verbs();
    import_verbs();
    workload_verbs();
    fleet_verbs();
    capacity_verbs();
    cluster_verbs();
    pool_verbs();
    advice_verbs();
    cost_verbs();
  }

  tl::expected<Options, Ending> read(const std::vector<std::string>& args) {
    std::vector<const char*> argv{"qmctl"};
    for (const auto& arg : args) argv.push_back(arg.c_str());
    try {
      app_.parse(static_cast<int>(argv.size()), argv.data());
      const auto verbs = app_.get_subcommands();
      if (const auto extras = app_.remaining(true); !extras.empty()) {
        if (verbs.empty()) return ending(fmt::format("unknown verb '{}'", extras[0]), all_verbs());
        refuse(fmt::format("unexpected argument '{}'", extras[0]));
      }
      if (verbs.empty()) return ending("no verb is given", all_verbs());
      // A word that is a verb counts as one at any position.
      if (verbs.size() > 1)
        return ending(fmt::format("'{}' and '{}' are two verbs", verbs[0]->get_name(), verbs[1]->get_name()),
                      fmt::format("use qmctl {}", verbs[1]->get_name()));
      options_.verb = makers_.at(verbs[0])();
      options_.format = format_ == "json" ? Format::kJson : format_ == "yaml" ? Format::kYaml : Format::kTable;
      options_.timeout = parse_time("--timeout", timeout_);
      if (options_.timeout > kLongestTimeout) refuse("--timeout: give at most 24h");
      return options_;
    } catch (const CLI::CallForHelp&) {
      const auto verbs = app_.get_subcommands();
      return tl::unexpected(Ending{kDone, verbs.empty() ? app_.help() : verbs[0]->help(app_.get_name())});
    } catch (const CLI::ParseError& e) {
      const auto verbs = app_.get_subcommands();
      return ending(e.what(),
                    verbs.empty() ? "see qmctl --help" : fmt::format("see qmctl {} --help", verbs[0]->get_name()));
    }
  }

 private:
  static tl::unexpected<Ending> ending(std::string what, const std::string& remedy) {
    // CLI11 prepends the kind of its error to our message.
    if (what.starts_with("ValidationError: ")) what.erase(0, 17);
    return tl::unexpected(Ending{kUsage, fmt::format("qmctl: {}\n  remedy: {}\n", what, remedy)});
  }
  std::string all_verbs() {
    std::vector<std::string> names;
    for (const auto* verb : app_.get_subcommands([](const CLI::App*) { return true; }))
      names.push_back(verb->get_name());
    return fmt::format("use one of {}", fmt::join(names, ", "));
  }
  CLI::App* verb(const std::string& name, const std::string& what, std::function<Verb()> make) {
    auto* sub = app_.add_subcommand(name, what);
    makers_.emplace(sub, std::move(make));
    return sub;
  }
  void allow_unknown(CLI::App* sub) {
    sub->add_flag("--allow-unknown", allow_unknown_, "accept fields that the API does not have; they have no effect");
  }
  void request_id(CLI::App* sub) {
    sub->add_option("--request-id", request_id_,
                    "repeat an earlier call: the same id is answered once and does nothing again");
  }
  void workload_name(CLI::App* sub) {
    sub->add_option("workload", name_, "NAMESPACE/NAME; a bare NAME is in namespace default")->required();
  }

  void security_options() {
    auto& security = options_.security;
    const auto option = [this](const char* flag, std::string& to, const char* what, const char* env) {
      app_.add_option(flag, to, what)->envname(env)->group("Security");
    };
    option("--tls-ca", security.ca, "authority that signs for the services, PEM; plain text without it", "QM_TLS_CA");
    option("--tls-cert", security.certificate, "certificate to show, PEM", "QM_TLS_CERT");
    option("--tls-key", security.key, "its key, PEM", "QM_TLS_KEY");
    option("--server-name", security.server_name, "name in the services' certificates, where it is not the address's",
           "QM_SERVER_NAME");
    option("--token-file", security.token_file, "file with a bearer token", "QM_TOKEN_FILE");
    option("--token", security.token, "the token itself; other users of this host can see it, unlike QM_TOKEN",
           "QM_TOKEN");
    app_.add_flag("--insecure", security.insecure, "plain text to other hosts too")
        ->envname("QM_INSECURE")
        ->group("Security");
  }

  void change_verbs() {
    auto* apply = verb("apply", "apply queues, cohorts, flavors and priority classes", [this] {
      return Verb(ApplyVerb{files_, dry_run_, request_id_, allow_unknown_, replace_});
    });
    apply->add_option("-f,--file", files_, "YAML or JSON file, folder, or - (repeatable)")->required();
    apply->add_flag("--dry-run", dry_run_, "check and show what would be replaced, change nothing");
    apply->add_flag("--replace", replace_, "replace objects that exist with other content");
    allow_unknown(apply);
    request_id(apply);

    auto* submit = verb("submit", "submit a Job, from a file or from flags", [this] { return submit_verb(); });
    submit->add_option("-f,--file", files_, "one batch/v1 Job, or -")->expected(1);
    submit->add_option("--name", spec_name_, "name of the Job");
    submit->add_option("-n,--namespace", ns_, "its namespace");
    submit->add_option("--queue", queue_, "LocalQueue, or ClusterQueue");
    submit->add_option("--team", team_, "team that pays; the namespace if not set");
    submit->add_option("--priority-class", priority_class_, "WorkloadPriorityClass");
    ranged(submit->add_option("--pods", pods_, "pods of the gang"), OptionRange<std::int64_t>(1, kMostPods, "pods"));
    ranged(submit->add_option("--gpus", gpus_, "whole GPUs of each pod"), OptionRange<std::int64_t>(0, 1024, "GPUs"));
    submit->add_option("--gpu-model", models_, "allowed device model (repeatable)");
    submit->add_option("--cpu", cpu_, "CPU of each pod, as Kubernetes writes it");
    submit->add_option("--memory", memory_, "memory of each pod, as Kubernetes writes it");
    submit->add_option("--runtime", runtime_, "expected run time, such as 1h30m");
    submit->add_option("--node-selector", selectors_, "label of the nodes to run on, key=value (repeatable)");
    submit->add_option("--annotation", pairs_, "annotation of the pods, key=value (repeatable)");
    submit->add_flag("--checkpoints", checkpoints_, "the ranks answer a checkpoint order");
    allow_unknown(submit);
    request_id(submit);

    auto* admit = verb("admit", "check manifests as the admission webhook would, without a service",
                       [this] { return admit_verb(); });
    admit->add_option("-f,--file", files_, "YAML or JSON file, folder, or - (repeatable)")->required();
    allow_unknown(admit);
    admit->add_option("-n,--namespace", ns_, "for objects without one; a Namespace among the files sets its rules");
    admit->add_option("--set", sets_, "a setting of the webhook, such as webhook-labels=team,cost-center (repeatable)");

    auto* cancel = verb("cancel", "end a workload", [this] {
      return Verb(CancelVerb{parse_name(name_), reason_, request_id_});
    });
    workload_name(cancel);
    cancel->add_option("--reason", reason_, "kept with the workload");
    request_id(cancel);
  }

  void order_verbs() {
    const auto active = [this](const char* name, const char* what, bool yes) {
      auto* sub = verb(name, what, [this, yes] {
        return Verb(ActiveVerb{parse_name(name_), yes, reason_, request_id_});
      });
      workload_name(sub);
      sub->add_option("--reason", reason_, "kept with the workload");
      request_id(sub);
    };
    active("stop", "deactivate a workload: it releases its quota and is not scheduled", false);
    active("resume", "activate a workload again", true);
    auto* check = verb("check", "answer an admission check of a workload: check answer NAMESPACE/NAME", [this] {
      CheckVerb out{parse_name(name_), check_, message_, request_id_};
      out.state = parse_enum<pb::CheckState>("--state", state_);
      if (!retry_after_.empty()) out.retry_after = parse_time("--retry-after", retry_after_);
      return Verb(out);
    });
    check->add_option("action", what_, "answer")->required()->check(CLI::IsMember({"answer"}));
    workload_name(check);
    check->add_option("--check", check_, "the AdmissionCheck")->required();
    check->add_option("--state", state_, one_of<pb::CheckState>())->required();
    check->add_option("--message", message_, "reason, as text");
    check->add_option("--retry-after", retry_after_, "of Retry: delay until the next try, such as 5m");
    request_id(check);
  }

  void preset_verbs() {
    auto* preset = verb("preset", "print the objects of a fleet layout, for kubectl apply: preset teams",
                        [this] { return preset_verb(); });
    preset->add_option("what", what_, "teams: queues, quotas and pools of several teams")
        ->required()
        ->check(CLI::IsMember({"teams"}));
    preset
        ->add_option("--model", model_,
                     "centralized: one cluster, cohort and quotas; decentralized: a pool for each team")
        ->required()
        ->check(CLI::IsMember({"centralized", "decentralized"}));
    preset->add_option("--team", pairs_, "a team and its GPUs, team=32 (repeatable)")->required();
    preset->add_option("--flavor", flavor_, "name of the common ResourceFlavor")->capture_default_str();
    preset->add_option("--resource", resource_, "what is counted")->capture_default_str();
  }

  void import_verbs() {
    auto* import = verb("import", "print the NodePools of node groups of another tool, for kubectl apply", [this] {
      return Verb(ImportVerb{what_, files_});
    });
    import
        ->add_option("what", what_,
                     "cluster-autoscaler: its Deployment, and its ConfigMap of priorities; gke or eksctl: a script")
        ->required()
        ->check(CLI::IsMember({"cluster-autoscaler", "gke", "eksctl"}));
    import->add_option("files", files_, "files to read, or -")->required();
  }

  Verb preset_verb() {
    PresetVerb out{model_, flavor_, resource_, {}};
    for (const auto& text : pairs_) {
      const auto equals = text.find('=');
      if (equals == std::string::npos || equals == 0)
        refuse(fmt::format("--team: '{}' is not of the form team=GPUS", text));
      const auto team = text.substr(0, equals);
      for (const auto& [known, gpus] : out.teams) {
        if (known == team) refuse(fmt::format("--team: {} is given twice", team));
      }
      out.teams.emplace_back(team, parse_quantity("--team", text.substr(equals + 1), false));
    }
    return out;
  }

  void workload_verbs() {
    const auto filters = [this](CLI::App* sub) {
      sub->add_option("-n,--namespace", ns_, "only this namespace");
      sub->add_option("--queue", queue_, "only this queue");
      sub->add_option("--team", team_, "only this team");
      sub->add_option("--phase", phase_, "only this phase: " + one_of<pb::WorkloadPhase>());
    };
    auto* list = verb("list", "list workloads", [this] {
      if (what_ != "workloads") refuse("list shows workloads; one workload: qmctl get NAMESPACE/NAME");
      return list_verb();
    });
    list->add_option("what", what_, "workloads")->capture_default_str();
    filters(list);
    auto* get = verb("get", "list workloads, or show one", [this] {
      if (what_ == "workloads") return list_verb();
      if (what_.find('/') == std::string::npos)
        refuse(fmt::format("get shows workloads or NAMESPACE/NAME, not '{}'", what_));
      return Verb(GetVerb{parse_name(what_)});
    });
    get->add_option("what", what_, "workloads, or NAMESPACE/NAME")->capture_default_str();
    filters(get);
    workload_name(verb("describe", "show the full state of one workload",
                       [this] { return Verb(DescribeVerb{parse_name(name_)}); }));
    workload_name(verb("why", "why a workload is pending, and what would admit it",
                       [this] { return Verb(WhyVerb{parse_name(name_)}); }));
    workload_name(verb("when", "forecast of the start of a workload: an interval and its basis",
                       [this] { return Verb(WhenVerb{parse_name(name_)}); }));
    auto* what_if =
        verb("what-if", "workloads that a change would admit, displace or delay; nothing is changed", [this] {
          if (files_.empty() && deleted_.empty()) refuse("what-if needs a change: -f FILE, or --delete KIND/NAME");
          return Verb(WhatIfVerb{files_, deleted_, allow_unknown_});
        });
    what_if->add_option("-f,--file", files_, "changed objects and new Jobs (repeatable)");
    allow_unknown(what_if);
    what_if->add_option("--delete", deleted_,
                        "object to delete, such as ClusterQueue/research, LocalQueue/team/q or Job/team/train");
    auto* queue = verb("queue", "print the manifest of a ClusterQueue as applied: queue show NAME",
                       [this] { return Verb(QueueVerb{name_}); });
    queue->add_option("action", what_, "show")->required()->check(CLI::IsMember({"show"}));
    queue->add_option("name", name_, "its name")->required();
    verb("classes", "priority classes by value, the highest first", [] { return Verb(ClassesVerb{}); });
    verb("budget", "each Budget in its current period: granted, spent, held and free",
         [] { return Verb(BudgetVerb{}); });
    verb("queues", "quota and usage of each ClusterQueue", [] { return Verb(QueuesVerb{}); });
  }

  void fleet_verbs() {
    auto* nodes = verb("nodes", "nodes and their GPU usage", [this] { return Verb(NodesVerb{state_}); });
    nodes->add_option("--state", state_, one_of({pb::NODE_GONE}));
    auto* layouts = verb("layouts", "MIG layouts of nodes; with -f, order other layouts", [this] {
      return Verb(LayoutsVerb{files_, deleted_, dry_run_, request_id_});
    });
    layouts->add_option("-f,--file", files_,
                        "Nodes with the label nvidia.com/mig.config, mig-parted's list, values of the GPU Operator");
    layouts->add_option("--withdraw", deleted_, "node whose layout order is canceled, if it has not begun");
    layouts->add_flag("--dry-run", dry_run_, "print the orders, change nothing");
    layouts->add_option("--request-id", request_id_, "the id of an earlier try, to be sure of doing it once");
    auto* cluster = verb("cluster", "gap: the allocation of the fleet next to the upper bound of any scheduler",
                         [] { return Verb(ClusterVerb{}); });
    cluster->add_option("action", what_, "gap")->required()->check(CLI::IsMember({"gap"}));
    auto* defrag =
        verb("defrag", "plan: whole nodes that would become free by migrations", [this] { return Verb(defrag_); });
    defrag->add_option("action", what_, "plan")->required()->check(CLI::IsMember({"plan"}));
    ranged(defrag->add_option("--max-pods", defrag_.max_pods, "pods that migrate at most"),
           at_least<std::int64_t>(0, "pods"));
    ranged(defrag->add_option("--max-gpu-hours", defrag_.max_gpu_hours, "limit of lost work"),
           at_least<double>(0, "GPU-hours"));
    ranged(defrag->add_option("--max-usd", defrag_.max_usd, "cost at most"), at_least<double>(0, "USD"));
    auto* claims = verb("claims", "instances requested from the cloud, with their state", [this] {
      ClaimsVerb out;
      if (!state_.empty()) out.state = parse_enum<pb::InstanceState>("--state", state_);
      return Verb(out);
    });
    claims->add_option("--state", state_, one_of<pb::InstanceState>());
    verb("plan", "pending launches: instances, for which workloads, and what prevents others",
         [] { return Verb(PlanVerb{}); });
    chaos_verb();
    auto* scale =
        verb("scale", "eval: replicas that HorizontalPodAutoscalers and ScaledObjects ask for, and why", [this] {
          if (!files_.empty()) return scale_files_verb();
          if (!pairs_.empty() || count_ != 0) refuse("--value and --replicas are assumptions about -f FILE");
          const auto slash = name_.find('/');
          const bool both = slash != std::string::npos;
          return Verb(ScaleVerb{both ? name_.substr(0, slash) : ns_, both ? name_.substr(slash + 1) : name_});
        });
    scale->add_option("action", what_, "eval")->required()->check(CLI::IsMember({"eval"}));
    scale->add_option("name", name_, "NAME or NAMESPACE/NAME of a workload or a scaler (default: all)");
    scale->add_option("-n,--namespace", ns_, "only this namespace");
    scale->add_option(
        "-f,--file", files_,
        "HorizontalPodAutoscalers and InferenceServices to evaluate at an assumed load, without a service");
    scale->add_option("--value", pairs_, "with -f: a metric and its assumed value, gpu_utilization=92 (repeatable)");
    ranged(scale->add_option("--replicas", count_, "with -f: ready replicas (default: the minimum)"),
           OptionRange<std::int64_t>(1, kMostPods, "replicas"));
    auto* top = verb("top", "latest sample of each GPU", [this] { return Verb(TopVerb{node_, ns_}); });
    top->add_option("--node", node_, "only this node");
    top->add_option("-n,--namespace", ns_, "only GPUs of this namespace's pods");
    auto* events = verb("events", "follow the events of every topic, until Ctrl-C", [this] {
      return Verb(EventsVerb{topic_, key_, count_});
    });
    events->add_flag("--follow", follow_, "required: events are followed, there is no history to print")->required();
    events->add_option("--topic", topic_, "only this topic")
        ->check(CLI::IsMember(std::vector<std::string>(kTopics.begin(), kTopics.end())));
    events->add_option("--key", key_, "only this key");
    ranged(events->add_option("--count", count_, "end after so many"), at_least<std::int64_t>(1));
  }

  void capacity_verbs() {
    auto* capacity = verb("capacity", "why, plan, simulate: what is launched and at which price, candidates, what-if",
                          [this] { return capacity_.verb(); });
    capacity_.add_to(*capacity);
  }

  CLI::Option* kube(CLI::App* sub) {
    return sub->add_option("--kube", kube_,
                           "cluster: kubeconfig[:PATH][#CONTEXT] or an address; that of kubectl if not set");
  }

  void pool_verbs() {
    auto* pool = verb("pool", "NodePools: what they allow and cost at most, as a table or a diagram; preset tiered",
                      [this] { return pool_verb(); });
    pool->add_option("action", what_, "show, diagram or preset")
        ->required()
        ->check(CLI::IsMember({"show", "diagram", "preset"}));
    pool->add_option("name", name_, "show: only this NodePool; preset: tiered (spot first, on-demand last)");
    auto* files = pool->add_option("-f,--file", files_, "NodePools and EC2NodeClasses instead of those of the cluster");
    kube(pool)->excludes(files);
    pool->add_option("--node-class", node_class_, "preset: the EC2NodeClass of the pools")->capture_default_str();
    auto* lint = verb(
        "lint", "NodePools, workloads and scalers that do not do what is meant; exit code 2 if there are any", [this] {
          return Verb(LintVerb{files_, kube_});
        });
    auto* linted = lint->add_option("-f,--file", files_, "objects to lint together instead of those of the cluster");
    kube(lint)->excludes(linted);
    auto* instances =
        verb("instances", "instance types of the catalog: GPUs, their memory, and the price on demand", [this] {
          return Verb(InstancesVerb{type_, model_});
        });
    instances->add_option("--type", type_, "only this instance type");
    instances->add_option("--gpu", model_, "only this GPU, by its name in node labels, such as a10g");
  }

  Verb scale_files_verb() {
    if (!name_.empty() || !ns_.empty()) refuse("with -f the objects of the files are evaluated: remove the name");
    ScaleFilesVerb out{files_, {}, count_};
    for (const auto& [name, text] : pairs("--value", pairs_)) {
      const auto value = Quantity::parse(text);
      if (!value || value->negative()) refuse(fmt::format("--value: '{}' of {} is not a number from 0", text, name));
      constexpr double kMilli = 1000;
      out.values[name] = static_cast<double>(value->milli()) / kMilli;
    }
    return out;
  }

  Verb pool_verb() {
    PoolVerb out{.name = name_, .files = files_, .kube = kube_, .node_class = node_class_};
    if (what_ == "diagram") out.action = PoolVerb::Action::kDiagram;
    if (what_ == "preset") out.action = PoolVerb::Action::kPreset;
    if (what_ == "preset" && name_ != "tiered") refuse("pool preset: the preset is tiered");
    if (what_ == "diagram" && !name_.empty()) refuse("pool diagram draws all NodePools; remove the name");
    return out;
  }

  void cluster_verbs() {
    auto* preflight =
        verb("preflight", "whether a cluster has what GPUs need; exit code 2 if a requirement is missing", [this] {
          return Verb(PreflightVerb{kube_, operator_values_, nccl_});
        });
    kube(preflight);
    preflight->add_option("--operator-values", operator_values_, "Helm values of the GPU Operator, to check as well");
    preflight->add_option("--nccl", nccl_, "judge this output of nccl-tests instead; - reads standard input")
        ->excludes("--operator-values");
    auto* node =
        verb("node", "verify a node after an install, or print a debug pod for it", [this] { return node_verb(); });
    kube(node);
    node->add_option("action", what_, "verify or debug")->required()->check(CLI::IsMember({"verify", "debug"}));
    node->add_option("node", node_, "name of the node; debug without one uses any GPU node");
    node->add_option("--label", pairs_, "label of the debug pod, key=value (repeatable)");
  }

  void advice_verbs() {
    auto* recommend = verb("recommend", "compare MIG, MPS and time-slicing for a workload: recommend sharing", [this] {
      return Verb(RecommendVerb{tenants_, production_, model_, table_});
    });
    recommend->add_option("action", what_, "sharing")->required()->check(CLI::IsMember({"sharing"}));
    ranged(recommend->add_option("--tenants", tenants_, "how many share one GPU that do not trust one another"),
           at_least<std::int64_t>(1, "tenants"));
    recommend->add_flag("--production", production_, "latency matters: users wait for the answers");
    recommend->add_option("--gpu-model", model_, "GPU model, such as H100 or Tesla-T4");
    recommend->add_option("--table", table_,
                          "a comparison of your own, CSV with the columns dimension,mig,mps,time_slicing");
  }

  Verb node_verb() {
    NodeVerb out{.node = node_, .kube = kube_};
    if (what_ == "debug") out.action = NodeVerb::Action::kDebug;
    if (what_ == "verify" && node_.empty()) refuse("node verify: which node? give its name");
    out.labels = pairs("--label", pairs_);
    return out;
  }

  void cost_verbs() {
    auto* report = verb("report", "chargeback: GPU-hours and dollars of each team, against the provider's bill",
                        [this] { return Verb(ReportVerb{period_}); });
    report->add_option("--period", period_, "a month, YYYY-MM; all months if not set")->check(check_period);
    auto* prices = verb("prices", "prices in effect", [this] { return Verb(PricesVerb{type_}); });
    prices->add_option("--type", type_, "only this instance type");
  }

  Verb list_verb() {
    ListVerb out{ns_, queue_, team_};
    if (!phase_.empty()) out.phase = parse_enum<pb::WorkloadPhase>("--phase", phase_);
    return out;
  }

  /// The key=value texts of the given flag.
  static std::map<std::string, std::string> pairs(const char* flag, const std::vector<std::string>& texts) {
    std::map<std::string, std::string> out;
    for (const auto& text : texts) {
      const auto equals = text.find('=');
      if (equals == 0 || equals == std::string::npos)
        refuse(fmt::format("{}: '{}' is not of the form key=value", flag, text));
      out[text.substr(0, equals)] = text.substr(equals + 1);
    }
    return out;
  }

  Verb admit_verb() {
    AdmitVerb out{.files = files_};
    out.allow_unknown = allow_unknown_;
    if (!ns_.empty()) out.ns = ns_;
    for (const auto& text : sets_) {
      const auto equals = text.find('=');
      if (equals == std::string::npos || !text.starts_with("webhook-"))
        refuse(fmt::format("--set: '{}' is not of the form webhook-NAME=VALUE", text));
      out.settings[text.substr(0, equals)] = text.substr(equals + 1);
    }
    return out;
  }

  void chaos_verb() {
    auto* chaos = verb(
        "chaos", "drills on a simulated fleet: spot-interrupt, node-kill; exit code 1 if not all recovers", [this] {
          ChaosVerb out = chaos_;
          out.what = what_;
          out.node = node_;
          out.notice = parse_time("--notice", notice_);
          out.within = parse_time("--within", within_);
          if (out.what == "spot-interrupt" && out.node.empty())
            refuse("--node is not set: name the spot node to interrupt");
          if (out.what == "spot-interrupt" && !out.cron.empty()) refuse("--cron is for node-kill");
          return Verb(std::move(out));
        });
    chaos->add_option("action", what_, "spot-interrupt or node-kill")
        ->required()
        ->check(CLI::IsMember({"spot-interrupt", "node-kill"}));
    chaos->add_option("--node", node_, "node; for node-kill by default one that runs pods");
    chaos->add_option("--notice", notice_, "time from the spot notice to the end of the instance")
        ->capture_default_str();
    chaos->add_option("--cron", chaos_.cron,
                      "of node-kill: instants as a crontab line in UTC, such as \"0 10 * * FRI\"");
    ranged(chaos->add_option("--times", chaos_.times, "instants of the line"),
           OptionRange<std::int64_t>(1, 1000, "times"))
        ->capture_default_str();
    ranged(chaos->add_option("--speed", chaos_.speed, "factor of the simulated clock until each instant"),
           OptionRange<double>(1, 100'000, "seconds in a second"));
    chaos->add_option("--within", within_, "simulated time in which all must have recovered")->capture_default_str();
    chaos->add_option("--fleet", chaos_.fleet, "URL of the fleet's controls, instead of that in the endpoints file");
    chaos->add_option("--report", chaos_.report, "file for the report, JSON");
    chaos->add_flag("--allow-real-time", chaos_.allow_real_time, "also if the suite runs in real time");
  }

  Verb submit_verb() {
    SubmitVerb out;
    out.request_id = request_id_;
    out.allow_unknown = allow_unknown_;
    out.annotations = pairs("--annotation", pairs_);
    const bool described = !spec_name_.empty() || !ns_.empty() || !queue_.empty() || !team_.empty() ||
                           !priority_class_.empty() || pods_ != 0 || gpus_ != 0 || !models_.empty() || !cpu_.empty() ||
                           !memory_.empty() || !runtime_.empty() || !selectors_.empty() || checkpoints_;
    if (!files_.empty()) {
      if (described) refuse("-f sets the whole Job; only --annotation may be added");
      out.file = files_[0];
      return out;
    }
    if (spec_name_.empty()) refuse("nothing to submit: set -f FILE, or --name and --queue");
    if (queue_.empty()) refuse("--queue is not set, and a Job without a queue is never admitted");
    out.spec.ns = Namespace(ns_.empty() ? "default" : ns_);
    out.spec.name = spec_name_;
    out.spec.queue = queue_;
    out.spec.team = Team(team_);
    out.spec.priority_class = priority_class_;
    out.spec.checkpoints = checkpoints_;
    if (!runtime_.empty()) out.spec.expected_runtime = parse_time("--runtime", runtime_);
    PodSet set;
    set.count = static_cast<std::int32_t>(pods_ == 0 ? 1 : pods_);
    set.shape.gpu.whole = gpus_;
    set.shape.gpu.models = models_;
    std::ranges::sort(set.shape.gpu.models);
    if (!cpu_.empty()) set.shape.cpu_milli = parse_quantity("--cpu", cpu_, true);
    if (!memory_.empty()) set.shape.memory_bytes = parse_quantity("--memory", memory_, false);
    set.shape.node_selector = pairs("--node-selector", selectors_);
    // GPU nodes commonly have a taint with this key, and a Job that requests GPUs must tolerate it.
    if (gpus_ > 0) set.shape.tolerations = {{std::string(words::kGpuResource), "Exists", {}, {}}};
    out.spec.pod_sets = {std::move(set)};
    return out;
  }

  CLI::App app_{"Client of Quartermaster: quotas and queues, workloads, placement, capacity, GPU telemetry and cost.",
                "qmctl"};
  std::map<const CLI::App*, std::function<Verb()>> makers_;
  Options options_{.endpoints = "build/run/endpoints.json"};
  std::string format_ = "table", timeout_ = "10s";
  std::vector<std::string> files_, models_, pairs_, selectors_, sets_;
  std::vector<std::string> deleted_;
  DefragVerb defrag_;
  CapacityFlags capacity_;
  ChaosVerb chaos_;
  std::string notice_ = "2m", within_ = "1h";
  std::string name_, what_ = "workloads", spec_name_, ns_, queue_, team_, phase_, priority_class_, cpu_, memory_,
                     runtime_, reason_, request_id_, state_, node_, topic_, key_, period_, type_, kube_,
                     operator_values_, nccl_, check_, message_, retry_after_, model_, table_;
  std::string flavor_ = "gpu", node_class_ = "default", resource_ = std::string(words::kGpuResource);
  std::int64_t pods_ = 0, gpus_ = 0, count_ = 0, tenants_ = 1;
  bool allow_unknown_ = false, dry_run_ = false, checkpoints_ = false, follow_ = false, production_ = false,
       replace_ = false;
};

}  // namespace

tl::expected<Options, Ending> parse_options(const std::vector<std::string>& args) { return Reader().read(args); }

}  // namespace qm::cli
