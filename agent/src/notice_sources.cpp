#include "notice_sources.hpp"

#include "qm/cloud/instants.hpp"
#include "qm/http/http.hpp"

#include <algorithm>

namespace qm::agent {
namespace {

using namespace std::chrono_literals;

constexpr const char* kRebalance = "rebalance";
constexpr const char* kMaintenance = "maintenance";
constexpr const char* kLifecycle = "lifecycle";
constexpr std::chrono::milliseconds kTimeout = 2s;

Result<Instant> instant_in(const std::string& text, const char* what) {
  const auto at = cloud::instant_of(text);
  if (!at) return fail(Code::kInvalid, "{} has \"{}\" for a time", what, text);
  return *at;
}

class AwsNotices final : public NoticeSource {
 public:
  AwsNotices(std::string node, MetadataSource& metadata, Duration lifecycle_time)
      : node_(std::move(node)), metadata_(metadata), lifecycle_time_(lifecycle_time) {}

  Result<std::vector<SeenNotice>> read(Instant now) override {
    QM_TRY(learn("instance-life-cycle", life_cycle_));
    if (reads_++ % kSlow == 0) QM_TRY(read_slow(now));
    std::vector<SeenNotice> out = slow_;
    if (life_cycle_ != "spot") return out;
    QM_ASSIGN(const auto action, metadata_.get(node_, "spot/instance-action"));
    if (action) {
      QM_ASSIGN(const auto body, Json::parse(*action));
      QM_ASSIGN(const auto at, instant_in(body["time"].string(), "spot/instance-action"));
      out.push_back({"", body["action"].string(), at});
    }
    QM_ASSIGN(const auto advice, metadata_.get(node_, "events/recommendations/rebalance"));
    if (advice) {
      QM_ASSIGN(const auto body, Json::parse(*advice));
      QM_ASSIGN(const auto at, instant_in(body["noticeTime"].string(), "events/recommendations/rebalance"));
      out.push_back({kRebalance, "rebalance", at});
    }
    return out;
  }

  Result<std::string> instance() override {
    QM_TRY(learn("instance-id", instance_));
    return instance_;
  }

 private:
  static constexpr std::uint64_t kSlow = 10;

  /// Reads a path whose value does not change into `known`, once.
  Status learn(const std::string& path, std::string& known) {
    if (!known.empty()) return {};
    QM_ASSIGN(auto text, metadata_.get(node_, path));
    if (!text || text->empty()) return fail(Code::kNotFound, "the metadata of {} has no {}", node_, path);
    known = std::move(*text);
    return {};
  }

  // Both are announced minutes to days before.
  Status read_slow(Instant now) {
    std::vector<SeenNotice> out;
    QM_ASSIGN(const auto scheduled, metadata_.get(node_, "events/maintenance/scheduled"));
    if (scheduled && !scheduled->empty()) {
      QM_ASSIGN(const auto events, Json::parse(*scheduled));
      for (const auto& event : events.items()) {
        if (event["State"].string() != "active") continue;
        QM_ASSIGN(const auto at, instant_in(event["NotBefore"].string(), "events/maintenance/scheduled"));
        out.push_back({kMaintenance, event["Code"].string(), at});
      }
    }
    QM_ASSIGN(const auto target, metadata_.get(node_, "autoscaling/target-lifecycle-state"));
    if (target && (*target == "Terminated" || *target == "Warmed:Terminated")) {
      if (!terminating_) terminating_ = now + lifecycle_time_;
      out.push_back({kLifecycle, "terminate", *terminating_});
    } else {
      terminating_.reset();
    }
    slow_ = std::move(out);
    return {};
  }

  const std::string node_;
  MetadataSource& metadata_;
  const Duration lifecycle_time_;
  std::string life_cycle_, instance_;
  std::uint64_t reads_ = 0;
  std::vector<SeenNotice> slow_;
  std::optional<Instant> terminating_;
};

class GcpNotices final : public NoticeSource {
 public:
  GcpNotices(MetadataGet get, bool wait) : get_(std::move(get)), wait_(wait) {}

  Result<std::vector<SeenNotice>> read(Instant now) override {
    QM_ASSIGN(const auto preempted, value("instance/preempted" + wait()));
    etag_ = preempted.etag;
    std::vector<SeenNotice> out;
    if (preempted.text != "TRUE") preempted_at_.reset();
    if (preempted.text == "TRUE") {
      if (!preempted_at_) preempted_at_ = now;
      out.push_back({"", "preempt", *preempted_at_ + kPreemption});
    }
    QM_ASSIGN(const auto event, text("instance/maintenance-event"));
    if (event == "NONE" || event.empty()) {
      maintenance_at_.reset();
    } else {
      if (!maintenance_at_) maintenance_at_ = now;
      out.push_back({kMaintenance, event, *maintenance_at_ + kMaintenanceNotice});
    }
    return out;
  }

  Result<std::string> instance() override { return text("instance/id"); }

 private:
  static constexpr auto kPreemption = 30s;         // from the signal to the end of the instance
  static constexpr auto kMaintenanceNotice = 60s;  // from the event to the maintenance

  // With the version of the last read a change between two reads is seen too. A short wait lets the agent stop in time.
  [[nodiscard]] std::string wait() const {
    if (!wait_ || etag_.empty()) return {};
    return "?wait_for_change=true&timeout_sec=1&last_etag=" + http::url_encode(etag_);
  }

  Result<MetadataValue> value(const std::string& path) {
    QM_ASSIGN(auto found, get_("/computeMetadata/v1/" + path, "Metadata-Flavor", "Google", kTimeout));
    return found.value_or(MetadataValue());
  }
  Result<std::string> text(const std::string& path) {
    QM_ASSIGN(auto found, value(path));
    return std::move(found.text);
  }

  const MetadataGet get_;
  const bool wait_;
  std::string etag_;  ///< of the last read of instance/preempted
  std::optional<Instant> preempted_at_, maintenance_at_;
};

class AzureNotices final : public NoticeSource {
 public:
  explicit AzureNotices(MetadataGet get) : get_(std::move(get)) {}

  Result<std::vector<SeenNotice>> read(Instant now) override {
    QM_ASSIGN(const auto name, instance());
    QM_ASSIGN(const auto text, get_("/metadata/scheduledevents?api-version=2020-07-01", "Metadata", "true", kEvents));
    std::vector<SeenNotice> out;
    if (!text) return out;
    QM_ASSIGN(const auto document, Json::parse(text->text));
    for (const auto& event : document["Events"].items()) {
      const auto& resources = event["Resources"].items();
      const auto& type = event["EventType"].string();
      const bool ours = std::ranges::any_of(resources, [&](const Json& r) { return r.string() == name; });
      if (!ours || type == "Freeze") continue;
      // Without NotBefore the event has started.
      const auto& text_of_start = event["NotBefore"].string();
      Instant at = now;
      if (!text_of_start.empty()) {
        QM_ASSIGN(at, instant_in(text_of_start, "scheduledevents"));
      }
      out.push_back({type == "Preempt" ? "" : kMaintenance, type, at});
    }
    return out;
  }

  Result<std::string> instance() override {
    if (!name_.empty()) return name_;
    QM_ASSIGN(const auto text,
              get_("/metadata/instance/compute/name?api-version=2021-02-01&format=text", "Metadata", "true", kTimeout));
    if (!text || text->text.empty()) return fail(Code::kNotFound, "the metadata have no name of the instance");
    name_ = text->text;
    return name_;
  }

 private:
  static constexpr std::chrono::milliseconds kEvents = 10s;  // the first call may take two minutes: it is repeated

  const MetadataGet get_;
  std::string name_;
};

}  // namespace

MetadataGet http_metadata(std::string url) {
  return [url = std::move(url)](const std::string& target, const std::string& header, const std::string& value,
                                std::chrono::milliseconds timeout) -> Result<std::optional<MetadataValue>> {
    http::ClientOptions options;
    options.connect_timeout = kTimeout;
    options.timeout = timeout;
    http::Client client(url, options);
    http::Request request;
    request.target = target;
    request.headers.set(header, value);
    QM_ASSIGN(auto answer, client.send(request));
    if (answer.status == 404) return std::optional<MetadataValue>();
    if (answer.status != 200) return fail(Code::kUnavailable, "{} answers with status {}", target, answer.status);
    return std::optional(MetadataValue{std::move(answer.body), std::string(answer.headers.get("ETag"))});
  };
}

std::unique_ptr<NoticeSource> aws_notices(std::string node, MetadataSource& metadata, Duration lifecycle_time) {
  return std::make_unique<AwsNotices>(std::move(node), metadata, lifecycle_time);
}
std::unique_ptr<NoticeSource> gcp_notices(MetadataGet get, bool wait) {
  return std::make_unique<GcpNotices>(std::move(get), wait);
}
std::unique_ptr<NoticeSource> azure_notices(MetadataGet get) { return std::make_unique<AzureNotices>(std::move(get)); }

}  // namespace qm::agent
