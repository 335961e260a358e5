#pragma once
#include "qm/clock/clock.hpp"
#include "qm/cost/engine.hpp"
#include "qm/kube/client.hpp"
#include "qm/service/host.hpp"

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace qm::cost {

inline constexpr std::int32_t kMostDevices = 1024;  ///< of one pod; a larger number is not trusted

/// Converts the observer's inputs "observed.node" and "observed.pod": an instance and its state, and the pods that
/// held its devices, with their times.
[[nodiscard]] Result<std::vector<Engine::Command>> from_observed(const std::string& name, const Json& input);

/// Cost without the rest of the suite: nodes and pods of the API server are its only input.
///
/// An instance is a node from its creation to its deletion; it is ready from the time of its Ready condition. A pod
/// holds its GPUs from its start to the end of its last container, or to its deletion. Their number is its request;
/// the devices are those of its annotation quartermaster.dev/devices if these were free all that time, else the first
/// free ones: only the number of devices affects the cost. An object that ended while the observer did not run ends
/// when it is first found missing.
///
/// Threads  start and stop by one; the informers' threads submit to the mailbox and wait while it is full.
class Observer {
 public:
  Observer(kube::Client& client, service::Host& host, const DomainClock& clock);
  ~Observer();
  void start();
  void stop();
  [[nodiscard]] bool synced() const { return nodes_.synced() && pods_.synced(); }

 private:
  struct Held {
    std::vector<std::pair<std::int32_t, std::int32_t>> devices;  ///< index, milli
    std::int64_t begin = 0, end = 0;                             ///< microseconds; end 0 = not ended
  };
  void restore();
  void on_node(const Json& node, bool deleted);
  void on_pod(const Json& pod, bool deleted);
  void nodes_listed();
  void pods_listed();
  Held* hold(const Json& pod, std::int64_t begin, std::int64_t end);
  void send(const char* name, const Json& input);

  service::Host& host_;
  const DomainClock& clock_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::map<std::string, std::map<std::string, Held>> held_;       ///< node -> pod uid; of two days
  std::map<std::string, std::string> published_;                  ///< last published state of a node
  std::map<std::string, std::pair<bool, std::int64_t>> cordons_;  ///< and their start
  std::set<std::string> present_nodes_, present_pods_;            ///< instances and pods that exist
  std::map<std::string, std::string> open_nodes_, open_pods_;     ///< as restored, until they are observed
  kube::Informer nodes_, pods_;
};

}  // namespace qm::cost
