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

/// How long certificates live. Wall time throughout: the API server judges them by its own clock, so a scaled domain
/// clock has no say here.
struct CertificateLife {
  std::chrono::seconds authority = std::chrono::hours(24 * 365);
  std::chrono::seconds serving = std::chrono::hours(24 * 30);
  std::chrono::seconds settle = std::chrono::minutes(10);   ///< a new authority is known everywhere before it signs
  std::chrono::seconds backdate = std::chrono::minutes(5);  ///< for clocks that are behind ours
};

/// What all replicas share, as it lies in the Secret.
struct Bundle {
  std::vector<std::string> authorities;  ///< PEM, the newest first
  std::string authority_key;             ///< of the newest
  http::Identity serving;
  [[nodiscard]] std::string text() const;  ///< the authorities as one PEM text: the caBundle
  friend bool operator==(const Bundle&, const Bundle&) = default;
};

/// The bundle as it should be now; equal to what is there where nothing is to be done.
///
/// At half its life a certificate is replaced. A new authority comes first into the bundle beside the old one, which
/// stays until it expires; only when it has been there for `settle`, and the caller has seen the bundle `registered`
/// with the API server, does it sign the serving certificate. So at every moment what is served is signed by an authority
/// that the API server has known for a while. What cannot be read, has expired, or lacks a name is made anew at once.
///
/// Threads  any; reads only its arguments. Fails: where OpenSSL does.
Result<Bundle> renewed(const Bundle& have, WallTime now, const std::vector<std::string>& names, bool registered,
                       const CertificateLife& life);

struct KeeperOptions {
  std::string ns = "quartermaster-system";
  std::string secret = "quartermaster-webhook-cert";
  std::vector<std::string> names;  ///< that the API server calls us by
  CertificateLife life;
  std::chrono::milliseconds period{30000};  ///< between looks, in steady time; after a failure and a race shorter
};

/// Keeps the shared certificate: makes it, renews it, and tells of every change. Any number of replicas may do so at once;
/// who loses a race takes what the other wrote.
///
/// Calls    enrol(bundle text) at each look: it sees to it that the API server trusts the bundle, which usually it does
///          already; then on_serving(identity), where what is to be served has changed.
/// Threads  `look` and `run` on one; callbacks on that one.
class CertificateKeeper {
 public:
  using Serve = std::function<Status(const http::Identity&)>;
  using Enrol = std::function<Status(const std::string& bundle)>;
  CertificateKeeper(kube::Client& client, KeeperOptions options, std::function<WallTime()> clock, Serve on_serving,
                    Enrol enrol);
  ~CertificateKeeper();
  /// One look: reads the Secret, renews, writes, serves, enrols. kAborted where another replica was first.
  Status look();
  void start();
  void stop();
  [[nodiscard]] WallTime serving_until() const;  ///< epoch while there is none

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::admission::webhook
