// Computes which certificates the webhook needs, without IO and without a clock.
#include "qm/admission/webhook/certificates.hpp"

#include <algorithm>

namespace qm::admission::webhook {
namespace {

constexpr const char* kAuthorityName = "quartermaster-webhook-ca";
constexpr const char* kServingName = "quartermaster-webhook";

bool half_over(const http::CertificateFacts& facts, WallTime now) {
  return now >= facts.from + (facts.until - facts.from) / 2;
}

Result<http::Identity> new_authority(WallTime now, const CertificateLife& life) {
  return http::make_authority({kAuthorityName, {}, now - life.backdate, now + life.authority});
}

/// A serving certificate, signed by the newest authority. It never outlives that authority.
Result<http::Identity> new_serving(const Bundle& bundle, WallTime now, const std::vector<std::string>& names,
                                   const CertificateLife& life) {
  const http::Identity authority{bundle.authorities.front(), bundle.authority_key};
  QM_ASSIGN(const auto facts, http::read_certificate(authority.certificate));
  return http::make_certificate(
      {kServingName, names, std::max(facts.from, now - life.backdate), std::min(facts.until, now + life.serving)},
      authority);
}

/// Whether the serving certificate may stay in use: readable, valid now, for these names, matching its key, and
/// signed by an authority of the bundle.
bool serves(const Bundle& bundle, WallTime now, std::vector<std::string> names) {
  const auto facts = http::read_certificate(bundle.serving.certificate);
  if (!facts || now < facts->from || now >= facts->until || !http::belongs(bundle.serving)) return false;
  std::ranges::sort(names);
  if (facts->names != names) return false;
  return std::ranges::any_of(bundle.authorities, [&](const std::string& authority) {
    return http::signed_by(bundle.serving.certificate, authority);
  });
}

bool can_sign(const Bundle& bundle) {
  return !bundle.authorities.empty() && http::belongs({bundle.authorities.front(), bundle.authority_key});
}

}  // namespace

std::string Bundle::text() const {
  std::string out;
  for (const auto& authority : authorities) out += authority;
  return out;
}

Result<Bundle> renewed(const Bundle& have, WallTime now, const std::vector<std::string>& names, bool registered,
                       const CertificateLife& life) {
  Bundle out = have;
  std::erase_if(out.authorities, [&](const std::string& authority) {
    const auto facts = http::read_certificate(authority);
    return !facts || now >= facts->until;
  });
  const bool dropped_newest =
      !have.authorities.empty() && (out.authorities.empty() || out.authorities.front() != have.authorities.front());
  bool fresh = false;
  if (dropped_newest || !can_sign(out) || half_over(*http::read_certificate(out.authorities.front()), now)) {
    QM_ASSIGN(auto made, new_authority(now, life));
    out.authorities.insert(out.authorities.begin(), std::move(made.certificate));
    out.authority_key = std::move(made.key);
    fresh = true;
  }
  if (!serves(out, now, names)) {
    // The present certificate is not usable, so nothing is lost by serving one that clients do not
    // trust everywhere yet.
    QM_ASSIGN(out.serving, new_serving(out, now, names, life));
    return out;
  }
  const auto authority = *http::read_certificate(out.authorities.front());
  const bool settled = !fresh && registered && now >= authority.from + life.backdate + life.settle;
  const bool due = half_over(*http::read_certificate(out.serving.certificate), now) ||
                   !http::signed_by(out.serving.certificate, out.authorities.front());
  if (settled && due) {
    QM_ASSIGN(out.serving, new_serving(out, now, names, life));
  }
  return out;
}

}  // namespace qm::admission::webhook
