#include "qm/kube/lease.hpp"

#include "qm/base/time.hpp"

#include <fmt/format.h>

#include <chrono>

namespace qm::kube {
namespace {

constexpr int kDurationSeconds = 15;

/// metav1.MicroTime: six digits, always.
std::string micro_time() {
  const auto now =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  auto text = to_rfc3339(from_micros(now / 1'000'000 * 1'000'000));
  text.pop_back();
  return fmt::format("{}.{:06}Z", text, now % 1'000'000);
}

}  // namespace

LeaseRecord::LeaseRecord(Client& client, std::string ns, std::string name, Holder holder)
    : client_(client), ns_(std::move(ns)), name_(std::move(name)), holder_(std::move(holder)) {}

Status LeaseRecord::renew() { return write(true); }
Status LeaseRecord::give_up() { return write(false); }

// The version that this holder wrote last needs no read. If it is no longer the newest one, that is read.
Status LeaseRecord::write(bool holds) {
  if (written_.is_null()) return write_over(client_.get(resources::kLeases, ns_, name_), holds);
  auto done = write_over(std::exchange(written_, Json()), holds);
  const auto code = done ? Code::kUnknown : done.error().code;
  if (code != Code::kAborted && code != Code::kNotFound) return done;
  return write_over(client_.get(resources::kLeases, ns_, name_), holds);
}

Status LeaseRecord::write_over(Result<Json> found, bool holds) {
  const auto now = micro_time();
  if (!found && found.error().code != Code::kNotFound) return fail(found.error());
  if (!found && !holds) return {};
  Json lease = found ? std::move(*found)
                     : Json::object({{"apiVersion", "coordination.k8s.io/v1"},
                                     {"kind", "Lease"},
                                     {"metadata", Json::object({{"name", name_}, {"namespace", ns_}})}});
  const std::string before = lease["spec"]["holderIdentity"].string();
  const std::int64_t term = lease["spec"]["leaseTransitions"].integer();
  if (term > holder_.term)
    return fail(Code::kFailedPrecondition, "the Lease {}/{} is held by {} in term {}, ours is {}", ns_, name_, before,
                term, holder_.term);
  if (!holds && before != holder_.identity) return {};
  auto& spec = lease.set("spec");
  if (holds && before != holder_.identity) spec.set("acquireTime", now);
  spec.set("holderIdentity", holds ? holder_.identity : "");
  spec.set("leaseTransitions", holder_.term);
  spec.set("leaseDurationSeconds", holds ? kDurationSeconds : 1);
  spec.set("renewTime", now);
  auto written =
      found ? client_.update(resources::kLeases, ns_, name_, lease) : client_.create(resources::kLeases, ns_, lease);
  if (!written && written.error().code == Code::kAlreadyExists)
    return fail(Code::kAborted, "the Lease {}/{} was created by another replica meanwhile", ns_, name_);
  if (!written) return fail(written.error());
  written_ = std::move(*written);
  return {};
}

}  // namespace qm::kube
