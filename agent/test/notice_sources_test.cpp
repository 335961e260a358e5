// Notices of GCP and Azure, from metadata servers that answer as theirs do.
#include "notice_sources.hpp"

#include "qm/http/http.hpp"
#include "qm/testing/testing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace qm::agent {
namespace notice_sources_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Instant kNow = from_micros(1'000'000'000'000);

/// A metadata server: values by target without its query; a read that waits for a change is answered by change().
class FakeServer {
 public:
  FakeServer(std::string header, std::string value)
      : header_(std::move(header)),
        value_(std::move(value)),
        server_({.threads = 2}, [this](const http::Request& r) { return answer(r); }) {
    EXPECT_TRUE(server_.start());
  }
  ~FakeServer() { server_.stop(); }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }
  void set(const std::string& path, const std::string& value) {
    const std::lock_guard lock(mutex_);
    values_[path] = value;
    ++version_;
  }
  /// Sets a value, and answers the reads that wait for it.
  void change(const std::string& path, const std::string& value) {
    const std::lock_guard lock(mutex_);
    values_[path] = value;
    ++version_;
    for (auto& stream : waiting_) stream->write(value), stream->close();
    waiting_.clear();
  }
  [[nodiscard]] std::size_t waiting() const {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }

 private:
  http::Answer answer(const http::Request& request) {
    if (request.headers.get(header_) != value_) return http::text(403, "the header is missing");
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(std::string(request.path()));
    if (found == values_.end()) return http::text(404, "");
    http::Response now = http::text(200, found->second);
    now.headers.set("ETag", std::to_string(version_));
    auto query = request.query();
    const bool waits = query["wait_for_change"] == "true" && query["last_etag"] == std::to_string(version_);
    if (!waits) return now;
    return {http::text(200, ""), [this](std::shared_ptr<http::Stream> stream) {
              const std::lock_guard hold(mutex_);
              waiting_.push_back(std::move(stream));
            }};
  }

  const std::string header_, value_;
  mutable std::mutex mutex_;
  int version_ = 1;
  std::map<std::string, std::string> values_;
  std::vector<std::shared_ptr<http::Stream>> waiting_;
  http::Server server_;
};

constexpr const char* kPreempted = "/computeMetadata/v1/instance/preempted";
constexpr const char* kEvent = "/computeMetadata/v1/instance/maintenance-event";
constexpr const char* kEvents = "/metadata/scheduledevents";

TEST(GcpNotices, APreemptionIsSeenAsSoonAsItsValueChanges) {
  FakeServer server("Metadata-Flavor", "Google");
  server.set(kPreempted, "FALSE");
  server.set(kEvent, "NONE");
  server.set("/computeMetadata/v1/instance/id", "42");
  const auto source = gcp_notices(http_metadata(server.url()), true);
  EXPECT_THAT(*source->read(kNow), IsEmpty());
  EXPECT_EQ(*source->instance(), "42");
  Result<std::vector<SeenNotice>> seen = std::vector<SeenNotice>{};
  std::thread reader([&] { seen = source->read(kNow); });
  EXPECT_TRUE(qm::testing::wait_until([&] { return server.waiting() == 1; }));
  server.change(kPreempted, "TRUE");
  reader.join();
  ASSERT_TRUE(seen) << seen.error().to_string();
  EXPECT_THAT(*seen, ElementsAre(SeenNotice{"", "preempt", kNow + std::chrono::seconds(30)}));
}

// A change between two reads would otherwise be seen only at the end of the next wait.
TEST(GcpNotices, APreemptionBetweenTwoReadsIsSeenByTheNextOne) {
  FakeServer server("Metadata-Flavor", "Google");
  server.set(kPreempted, "FALSE");
  server.set(kEvent, "NONE");
  const auto source = gcp_notices(http_metadata(server.url()), true);
  EXPECT_THAT(*source->read(kNow), IsEmpty());
  server.set(kPreempted, "TRUE");
  EXPECT_THAT(*source->read(kNow), ElementsAre(SeenNotice{"", "preempt", kNow + std::chrono::seconds(30)}));
  EXPECT_EQ(server.waiting(), 0U);
}

TEST(GcpNotices, AMaintenanceHasItsOwnKindAndTheFirstTimeItWasSeen) {
  FakeServer server("Metadata-Flavor", "Google");
  server.set(kPreempted, "FALSE");
  server.set(kEvent, "TERMINATE_ON_HOST_MAINTENANCE");
  const auto source = gcp_notices(http_metadata(server.url()), false);
  const SeenNotice expected{"maintenance", "TERMINATE_ON_HOST_MAINTENANCE", kNow + std::chrono::seconds(60)};
  EXPECT_THAT(*source->read(kNow), ElementsAre(expected));
  EXPECT_THAT(*source->read(kNow + std::chrono::seconds(5)), ElementsAre(expected));
  server.set(kEvent, "NONE");
  EXPECT_THAT(*source->read(kNow + std::chrono::seconds(9)), IsEmpty());
}

TEST(AzureNotices, EventsOfThisInstanceByTheirType) {
  FakeServer server("Metadata", "true");
  server.set("/metadata/instance/compute/name", "vm-1");
  server.set(kEvents, R"({"DocumentIncarnation":1,"Events":[]})");
  const auto source = azure_notices(http_metadata(server.url()));
  EXPECT_THAT(*source->read(kNow), IsEmpty());
  EXPECT_EQ(*source->instance(), "vm-1");
  server.set(kEvents, R"({"DocumentIncarnation":2,"Events":[
    {"EventId":"a","EventType":"Preempt","Resources":["vm-0","vm-1"],"EventStatus":"Scheduled",
     "NotBefore":"Sat, 21 Nov 2026 09:14:29 GMT","EventSource":"Platform"},
    {"EventId":"b","EventType":"Reboot","Resources":["vm-1"],"EventStatus":"Started","NotBefore":""},
    {"EventId":"c","EventType":"Freeze","Resources":["vm-1"],"NotBefore":"Sat, 21 Nov 2026 09:00:00 GMT"},
    {"EventId":"d","EventType":"Terminate","Resources":["vm-2"],"NotBefore":"Sat, 21 Nov 2026 09:00:00 GMT"}]})");
  EXPECT_THAT(*source->read(kNow), ElementsAre(SeenNotice{"", "Preempt", *from_rfc3339("2026-11-21T09:14:29Z")},
                                               SeenNotice{"maintenance", "Reboot", kNow}));
  server.set(kEvents, R"({"Events":[{"EventType":"Preempt","Resources":["vm-1"],"NotBefore":"soon"}]})");
  const auto wrong = source->read(kNow);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().to_string(), HasSubstr("\"soon\" for a time"));
}

TEST(AzureNotices, AServerThatDoesNotAnswerIsAnError) {
  const auto source = azure_notices(http_metadata("http://127.0.0.1:9"));
  EXPECT_FALSE(source->read(kNow));
  FakeServer google("Metadata-Flavor", "Google");
  EXPECT_FALSE(azure_notices(http_metadata(google.url()))->read(kNow)) << "status 403";
}

}  // namespace notice_sources_test
}  // namespace qm::agent
