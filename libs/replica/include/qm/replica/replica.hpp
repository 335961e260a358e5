#pragma once
#include "qm/base/result.hpp"
#include "qm/rpc/process.hpp"
#include "qm/service/host.hpp"
#include "qm/store/store.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace qm::replica {

/// One of the processes that can lead a shard: from its start until it leads, and from the end of its lead on.
///
///   run(settings):  begin()            waits for the lead; meanwhile serves /healthz, forwards gRPC to the leader
///                   take_store(), guard(options), then all components of a leader
///                   end_standby()      before its own servers start on the same addresses
///                   serving_at(port)   the other replicas forward their calls to it
///                   wait_for_end()     a signal, or another process took the lead
///                   end()              after the host has stopped: the next leader may begin
///
/// A process that has lost the lead starts again as if it were new (main): it keeps no state of its lead.
/// docs/adr/0014-leaders.md has the reasons.
class Replica {
 public:
  /// Migrates or checks the schema, depending on the settings, and waits for the lead, also while the database is
  /// unavailable. `gap`: what a standby of this service must serve itself and does not serve yet, for /readyz; empty =
  /// nothing. kCancelled: terminated before it led.
  static Result<std::unique_ptr<Replica>> begin(const rpc::Settings& settings, const std::string& service,
                                                std::vector<store::Migration> migrations = {},
                                                std::function<std::string()> gap = {});
  ~Replica();

  std::unique_ptr<store::Store> take_store();
  /// Limits the host: it executes intents and responds only while the lead is proven. It takes its shard only while
  /// this process holds the lease. The process ends its lead when the host lost the shard.
  void guard(service::HostOptions& options) const;
  void end_standby();
  void serving_at(int grpc_port);
  void wait_for_end();
  /// kAborted if the lead or the shard was lost; a lease that is still held is released.
  Status end();

  struct Impl;

 private:
  explicit Replica(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The main function of a service: settings, signals, run(settings), and the exit
/// status; restarts if run ends with kAborted. With --migrate-only it only migrates the schema, and needs nothing but
/// the database.
int main(int argc, char** argv, const rpc::Program& program, const std::function<Status(const rpc::Settings&)>& run,
         const std::vector<store::Migration>& migrations = {});

}  // namespace qm::replica
