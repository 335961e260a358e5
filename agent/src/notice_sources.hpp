#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "sources.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace qm::agent {

/// A notice of the cloud for the instance of a node, as its metadata shows it now.
struct SeenNotice {
  std::string kind;    ///< "" = spot capacity is reclaimed; "rebalance", "maintenance", "lifecycle": as in SpotNotice
  std::string action;  ///< in the cloud's words
  Instant at{};        ///< deadline; of a recommendation, its time
  friend auto operator<=>(const SeenNotice&, const SeenNotice&) = default;
};

enum class Cloud { kAws, kGcp, kAzure };

/// Reads the notices of one instance.
///
/// AWS     spot/instance-action and events/recommendations/rebalance of spot instances; at each tenth read of all
///         instances events/maintenance/scheduled and autoscaling/target-lifecycle-state.
/// GCP     instance/preempted, 30 s before the end; instance/maintenance-event. With `wait` the read of the first one
///         returns when its value differs from the last one read, also from before the call, or after one second.
/// Azure   scheduledevents, those that name the instance: Preempt; Terminate, Reboot and Redeploy as maintenance. A
///         Freeze of seconds is not a notice.
/// Threads one at a time.
class NoticeSource {
 public:
  virtual ~NoticeSource() = default;
  /// All present notices. kUnavailable and so on: nothing is known now; kInvalid: the answer cannot be read.
  virtual Result<std::vector<SeenNotice>> read(Instant now) = 0;
  /// The id of the instance, once it is known.
  virtual Result<std::string> instance() = 0;
};

/// A value of a metadata server, and its version if the server has one.
struct MetadataValue {
  std::string text, etag;
};
/// A GET of a target with a header, such as "Metadata-Flavor: Google". nullopt on 404. `timeout` of steady time.
using MetadataGet = std::function<Result<std::optional<MetadataValue>>(
    const std::string& target, const std::string& header, const std::string& value, std::chrono::milliseconds timeout)>;
/// Over HTTP. `url`: "http://169.254.169.254".
[[nodiscard]] MetadataGet http_metadata(std::string url);

[[nodiscard]] std::unique_ptr<NoticeSource> aws_notices(std::string node, MetadataSource& metadata,
                                                        Duration lifecycle_time);
[[nodiscard]] std::unique_ptr<NoticeSource> gcp_notices(MetadataGet get, bool wait);
[[nodiscard]] std::unique_ptr<NoticeSource> azure_notices(MetadataGet get);

}  // namespace qm::agent
