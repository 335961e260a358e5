#include "qm/cloud/credentials.hpp"

#include "credential_sources.hpp"
#include "outside.hpp"
#include "qm/base/log.hpp"

#include <cstdlib>
#include <mutex>

namespace qm::cloud {
namespace {

constexpr std::int64_t kAdvisory = 15 * 60, kMandatory = 10 * 60;
constexpr auto kAfterFailure = std::chrono::seconds(60);

CredentialOptions complete(CredentialOptions options) {
  options.outside = with_defaults(std::move(options.outside), options.ca_file);
  return options;
}

}  // namespace

Environment process_environment() {
  return [](const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? std::string() : std::string(value);
  };
}

struct Credentials::Impl {
  explicit Impl(CredentialOptions given) : options(complete(std::move(given))), source(choose_source(options)) {}

  enum class Age { kFresh, kAdvisory, kMandatory, kExpired };
  /// Under the mutex.
  [[nodiscard]] Age age() const {
    if (!current) return Age::kExpired;
    if (!current->expires_utc_s) return Age::kFresh;
    const auto left = *current->expires_utc_s - options.outside.utc_seconds();
    if (left > kAdvisory) return Age::kFresh;
    if (left > kMandatory) return Age::kAdvisory;
    return left > 0 ? Age::kMandatory : Age::kExpired;
  }
  /// The present keys, if they may be used without a fetch.
  [[nodiscard]] std::optional<Keys> usable() {
    const std::lock_guard lock(mutex);
    const auto now = age();
    if (now == Age::kFresh) return current;
    const bool waits = now != Age::kExpired && options.outside.now() < fetch_after;
    return waits ? current : std::nullopt;
  }
  [[nodiscard]] bool one_is_enough() {
    const std::lock_guard lock(mutex);
    return age() == Age::kAdvisory;
  }

  /// Under `fetching`.
  Result<Keys> fetch() {
    if (const auto present = usable()) return *present;  // another caller has fetched them
    auto fetched = source.fetch();
    const std::lock_guard lock(mutex);
    if (fetched && fetched->expires_utc_s && *fetched->expires_utc_s <= options.outside.utc_seconds()) {
      fetched = fail(Code::kUnavailable, "the keys of the source \"{}\" are expired", source.name);
    }
    if (fetched) {
      current = *fetched;
      return fetched;
    }
    if (age() == Age::kExpired) return fetched;
    fetch_after = options.outside.now() + kAfterFailure;
    log::warn("AWS credentials not renewed; the present ones are still valid",
              {{"source", source.name}, {"error", fetched.error().to_string()}});
    return *current;
  }

  CredentialOptions options;
  CredentialSource source;
  std::mutex fetching;  ///< held during a fetch; taken before `mutex`
  std::mutex mutex;
  std::optional<Keys> current;
  SteadyInstant fetch_after{};
};

Credentials::Credentials(CredentialOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Credentials::~Credentials() = default;

const std::string& Credentials::source() const { return impl_->source.name; }

Result<Keys> Credentials::keys() {
  if (const auto present = impl_->usable()) return *present;
  std::unique_lock fetching(impl_->fetching, std::defer_lock);
  if (impl_->one_is_enough()) {
    if (!fetching.try_lock()) {
      const std::lock_guard lock(impl_->mutex);
      if (impl_->current) return *impl_->current;
    }
  }
  if (!fetching.owns_lock()) fetching.lock();
  return impl_->fetch();
}

bool Credentials::reject(const std::string& access_key) {
  const std::lock_guard lock(impl_->mutex);
  if (!impl_->current) return true;
  if (!impl_->current->expires_utc_s) return false;
  if (impl_->current->access_key == access_key) impl_->current.reset();
  return true;
}

}  // namespace qm::cloud
