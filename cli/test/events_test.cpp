// The event stream: its end by Ctrl-C, and its continuation after a break.
#include "fake_suite.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <thread>

namespace qm::cli {
namespace events_test {

using testing::wait_until;

struct Stream {
  explicit Stream(const FakeSuite& suite, std::vector<std::string> args) {
    args.insert(args.begin(), {"--endpoints", suite.endpoints()});
    thread = std::jthread([this, args] { code = run(args, {in, out, err}, stop.get_token()); });
  }
  std::istringstream in;
  std::ostringstream out, err;
  std::stop_source stop;
  std::atomic<int> code = -1;
  std::jthread thread;
};

TEST(Events, FilterGoesToTheServiceAndAStopEndsInOrder) {
  FakeSuite suite;
  populate(suite.state);
  Stream stream(suite, {"events", "--follow", "--topic", "qm.spot", "--key", "k"});
  ASSERT_TRUE(wait_until([&] { return suite.state.streams == 1; }));
  EXPECT_EQ(stream.code, -1);
  stream.stop.request_stop();
  ASSERT_TRUE(wait_until([&] { return stream.code != -1; }));
  EXPECT_EQ(stream.code, kDone);
  EXPECT_EQ(suite.state.followed.topic(), "qm.spot");
  EXPECT_EQ(suite.state.followed.key(), "k");
}

TEST(Events, ABrokenStreamIsOpenedAgainWithANote) {
  FakeSuite suite;
  populate(suite.state);
  suite.state.break_streams = 1;
  const auto ran = qmctl(suite, {"events", "--follow", "--count", "4"});  // each stream sends three events
  EXPECT_EQ(ran.code, kDone) << ran.err;
  EXPECT_EQ(suite.state.streams, 2);
  EXPECT_NE(ran.err.find("events may be missing"), std::string::npos) << ran.err;
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 4);
}

TEST(Events, AStreamThatNeverLastsIsUnreachable) {
  FakeSuite suite;
  suite.state.break_streams = 1'000'000;
  EXPECT_EQ(qmctl(suite, {"events", "--follow", "--timeout", "300ms"}).code, kUnreachable);
  // The stream is reopened until then.
  const int before = suite.state.streams;
  Stream stream(suite, {"events", "--follow", "--timeout", "1h"});
  ASSERT_TRUE(wait_until([&] { return suite.state.streams >= before + 2; }));
  EXPECT_EQ(stream.code, -1);
  stream.stop.request_stop();
  ASSERT_TRUE(wait_until([&] { return stream.code != -1; }));
  EXPECT_EQ(stream.code, kDone);
}

TEST(Stop, EndsACallThatWaits) {
  FakeSuite suite;
  suite.stop();
  Stream stream(suite, {"list", "--timeout", "1h"});
  stream.stop.request_stop();
  ASSERT_TRUE(wait_until([&] { return stream.code != -1; }));
  EXPECT_EQ(stream.code, kFailed);
  stream.thread.join();
  EXPECT_NE(stream.err.str().find("interrupted"), std::string::npos);
}

}  // namespace events_test
}  // namespace qm::cli
