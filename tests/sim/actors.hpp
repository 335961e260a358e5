#pragma once
#include "services.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace qm::sim {

/// A request that applies manifests to admission.
[[nodiscard]] service::Input apply_input(const std::string& manifest);

/// A watch of one kind for one service, with the behavior of its informer: changes in order, and the whole list with
/// "synced" after each start and after each break.
class Watch {
 public:
  Watch(World& world, World::Kind kind, Service& to) : world_(world), kind_(kind), to_(to) {}
  void change(const std::string& key, const Json& object, bool deleted);
  void restart();  ///< a new process without state
  void list();     ///< the watch broke: everything is listed again
  void repeat_last();
  /// Delivers at most `most` inputs. True if it delivered any.
  bool deliver(std::int64_t most);
  [[nodiscard]] std::size_t waiting() const { return queue_.size(); }

 private:
  void put(const std::string& key, const Json& object, bool deleted);
  [[nodiscard]] const char* name() const;

  World& world_;
  World::Kind kind_;
  Service& to_;
  std::map<std::string, std::string> known_;  ///< key -> last delivered state
  std::deque<service::Input> queue_;
};

/// The autoscaler's polls of the cloud: every ten seconds, only changes.
class CloudLooks {
 public:
  CloudLooks(World& world, Service& to) : world_(world), to_(to) {}
  void restart() { last_.clear(), next_ = {}, prices_published_ = 0; }
  bool step();
  /// Quotes so far: (from, nano-dollars an hour).
  std::vector<std::pair<Instant, std::int64_t>> quotes;
  static constexpr const char* kType = "p5.48xlarge";
  static constexpr const char* kZone = "us-east-1a";

 private:
  World& world_;
  Service& to_;
  std::string last_;
  std::size_t prices_published_ = 0;
  Instant next_{};
};

/// The agents of all nodes: facts are sent until they are confirmed, orders are received and acknowledged.
class Agents {
 public:
  Agents(World& world, Random& random, Service& telemetry, std::unique_ptr<telemetry::AgentHub>& hub)
      : world_(world), random_(random), telemetry_(telemetry), hub_(hub) {}
  void restart();  ///< a new telemetry process: all connect again
  bool step(int repeat_per_mille);
  void report_xid(const std::string& node, int xid, int gpu);
  [[nodiscard]] bool idle() const;

 private:
  struct Agent {
    std::uint64_t hub_id = 0, number = 0;
    std::deque<telemetry::pb::AgentFact> facts;  ///< not confirmed
    std::set<std::string> sent;
    std::string devices;  ///< as last reported
    bool noticed = false;
    std::map<std::string, std::pair<Instant, telemetry::pb::CheckpointOrder>> orders;
    std::set<std::string> answered;
  };
  void look(const std::string& node, Agent& agent);
  void answer(const std::string& node, Agent& agent, const telemetry::pb::CheckpointOrder& order);
  telemetry::pb::AgentFact& fact(const std::string& node, Agent& agent);

  World& world_;
  Random& random_;
  Service& telemetry_;
  std::unique_ptr<telemetry::AgentHub>& hub_;
  std::map<std::string, Agent> agents_;
  std::map<std::string, std::int64_t> save_steps_;  ///< order -> step of all its ranks
  std::shared_ptr<std::set<std::string>> confirmed_ = std::make_shared<std::set<std::string>>();
};

/// Users: they submit jobs by gRPC or kubectl, and cancel some. A call is repeated until it is answered.
class Users {
 public:
  Users(World& world, Random& random, Service& admission) : world_(world), random_(random), admission_(admission) {}
  struct Kinds {
    bool slices = false;         ///< some request MIG instances
    bool elastic = false;        ///< most may run with fewer pods
    bool is_work_queue = false;  ///< most have more completions than parallelism
  };
  void plan(int jobs, Duration within, Kinds kinds);
  bool step();
  [[nodiscard]] bool done() const;
  /// Sends a call whose effects the database rejects; it must be refused as invalid, and no other input must wait.
  void send_unwritable();
  [[nodiscard]] std::uint64_t refused() const { return refused_; }

  struct Submission {
    std::string ns, name, priority;
    int pods = 1, least = 0, completions = 0, gpus = 1, slices = 0, cpu = 8, run_s = 60;
    bool checkpoints = false, by_kubectl = false;
    Instant at{}, cancel_at{};
    bool cancel_by_kubectl = false;
    bool submitted = false, cancelled = false;
    Instant asked{};
    int asks = 0;
  };
  [[nodiscard]] const std::vector<Submission>& submissions() const { return submissions_; }

 private:
  void submit(Submission& wish, std::size_t number);
  void cancel(Submission& wish, std::size_t number);
  void call(Submission& wish, const std::string& method, const std::string& id, std::string bytes,
            bool Submission::*done);

  World& world_;
  Random& random_;
  Service& admission_;
  std::vector<Submission> submissions_;
  struct Unwritable {
    bool answered = false;
    Instant again{};  ///< each wait is twice the last one, up to five minutes
    int asks = 0;
  };
  std::vector<Unwritable> unwritable_;
  std::uint64_t refused_ = 0;
};

}  // namespace qm::sim
