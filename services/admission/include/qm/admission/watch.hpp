#pragma once
#include "qm/kube/client.hpp"
#include "qm/service/host.hpp"

#include <atomic>
#include <map>
#include <set>
#include <string>

namespace qm::admission {

/// Brings Jobs to the host as inputs: those that name a queue or our scheduler, and of their changes those that the
/// engine could act on. After each complete list it says which exist, so that deletions missed while down are noticed.
///
/// Threads  start and stop by one; the callbacks run on the informer's thread, which waits while the mailbox is full.
class JobWatch {
 public:
  JobWatch(kube::Client& client, service::Host& host);
  ~JobWatch();
  void start();
  void stop();
  [[nodiscard]] bool synced() const { return informer_.synced(); }

 private:
  void changed(const Json& job, bool deleted);
  void synced_list();
  void send(std::string name, std::string bytes, const std::string& uid = {}, std::string trace_parent = {});

  service::Host& host_;
  std::atomic<bool> stopping_{false};
  std::map<std::string, std::string> known_;  ///< uid -> what was last sent of it
  kube::Informer informer_;
};

/// What the engine could act on in a job; two jobs of one print are the same to it.
[[nodiscard]] std::string job_print(const Json& job);

}  // namespace qm::admission
