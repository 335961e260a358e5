#pragma once
#include "qm/base/result.hpp"
#include "qm/http/certificate.hpp"
#include "qm/kube/client.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace qm::admission::webhook {

using http::WallTime;

/// Lifetimes of the certificates, in wall time: the API server validates them by its own clock, so a scaled domain
/// clock does not apply.
struct CertificateLife {
  std::chrono::seconds authority = std::chrono::hours(24 * 365);
  std::chrono::seconds serving = std::chrono::hours(24 * 30);
  std::chrono::seconds settle = std::chrono::minutes(10);   ///< time for a new authority to propagate before it signs
  std::chrono::seconds backdate = std::chrono::minutes(5);  ///< for clocks that are behind ours
};

/// What all replicas share, as stored in the Secret.
struct Bundle {
  std::vector<std::string> authorities;  ///< PEM, newest first
  std::string authority_key;             ///< of the newest authority
  http::Identity serving;
  [[nodiscard]] std::string text() const;  ///< the authorities as one PEM text: the caBundle
  friend bool operator==(const Bundle&, const Bundle&) = default;
};

/// The bundle as it should be now; equal to `have` if nothing has to change.
///
/// A certificate is replaced at half its lifetime. A new authority is first added to the bundle; the old one stays
/// until it expires. The new authority signs the serving certificate only after `settle`, and after the caller has
/// observed the bundle `registered` with the API server. So the served certificate is always signed by an authority
/// that the API server already trusts. A part that cannot be parsed, has expired, or lacks a name is replaced at
/// once.
///
/// Threads  any; reads only its arguments. Fails: if OpenSSL does.
Result<Bundle> renewed(const Bundle& have, WallTime now, const std::vector<std::string>& names, bool registered,
                       const CertificateLife& life);

struct KeeperOptions {
  std::string ns = "quartermaster-system";
  std::string secret = "quartermaster-webhook-cert";
  std::vector<std::string> names;  ///< names that the API server uses for the webhook
  CertificateLife life;
  std::chrono::milliseconds period{30000};  ///< between checks, in steady time; shorter after a failure or a conflict
};

/// Maintains the shared certificate: creates it, renews it, and reports each change. Any number of replicas may run
/// it at once; after a write conflict a replica uses what the other one wrote.
///
/// Calls    enrol(bundle text) at each check: it makes the API server trust the bundle, which is usually the case
///          already; then on_serving(identity), if the served certificate changed.
/// Threads  `look` and `run` on one; callbacks on the same one.
class CertificateKeeper {
 public:
  using Serve = std::function<Status(const http::Identity&)>;
  using Enrol = std::function<Status(const std::string& bundle)>;
  CertificateKeeper(kube::Client& client, KeeperOptions options, std::function<WallTime()> clock, Serve on_serving,
                    Enrol enrol);
  ~CertificateKeeper();
  /// One check: reads the Secret, renews, writes, serves, enrols. kAborted if another replica wrote first.
  Status look();
  void start();
  void stop();
  [[nodiscard]] WallTime serving_until() const;  ///< epoch while there is no certificate

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::admission::webhook
