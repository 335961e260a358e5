// The informer against a real API server: the initial list of a large cluster, and everything that ends a watch.
#include "real_kube.hpp"

#include <chrono>
#include <iostream>
#include <map>
#include <mutex>
#include <thread>

namespace qm::kube {
namespace informer_k8s_test {

using namespace resources;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Records the callbacks of an informer: the existing pods, and how often a pod was reported as new.
class View {
 public:
  View(Client& client, std::string ns, int watch_seconds = 300)
      : informer_(client, kPods, std::move(ns),
                  {[this](const Json& object, bool deleted) { note(object, deleted); }, {}}, watch_seconds) {
    informer_.start();
  }
  ~View() { informer_.stop(); }

  [[nodiscard]] std::size_t size() const {
    const std::scoped_lock lock(mutex_);
    return pods_.size();
  }
  [[nodiscard]] bool has(const std::string& name) const {
    const std::scoped_lock lock(mutex_);
    return pods_.contains(name);
  }
  [[nodiscard]] bool wait_for(const std::string& name, bool present = true) const {
    return testing::wait_until([&] { return has(name) == present; }, std::chrono::seconds(60));
  }
  /// Deletions of objects that did not exist, and objects reported twice in one version.
  [[nodiscard]] int mistakes() const {
    const std::scoped_lock lock(mutex_);
    return mistakes_;
  }
  Informer& informer() { return informer_; }

 private:
  void note(const Json& object, bool deleted) {
    const std::scoped_lock lock(mutex_);
    const auto name = name_of(object);
    const auto it = pods_.find(name);
    if (deleted) {
      mistakes_ += it == pods_.end() ? 1 : 0;
      pods_.erase(name);
    } else {
      mistakes_ += it != pods_.end() && it->second == resource_version_of(object) ? 1 : 0;
      pods_.insert_or_assign(name, resource_version_of(object));
    }
  }

  mutable std::mutex mutex_;
  std::map<std::string, std::string> pods_;
  int mistakes_ = 0;
  Informer informer_;
};

class RealInformer : public RealKube {
 protected:
  void make(const std::string& name) { must_create(kPods, pod(name)); }
  void end(const std::string& name) { ASSERT_TRUE(client().remove(kPods, ns(), name, {{}, 0, "Background"})); }
};

TEST_F(RealInformer, HoldsFiveThousandPodsFromCold) {
  // The namespace is reused, because creating 5,000 pods takes longer than the rest of the test.
  constexpr int kPodCount = 5000, kThreads = 8;
  const std::string many = "contract-many";
  (void)client().create(
      kNamespaces, "",
      Json::object({{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", Json::object({{"name", many}})}}));
  const auto there = client().list_all(kPods, many);
  ASSERT_TRUE(there) << there.error().to_string();
  if (there->size() < kPodCount) {
    ASSERT_TRUE(testing::wait_until([&] { return server().has_settled(client(), many); }));
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        Client own(server().options());
        for (int i = t; i < kPodCount; i += kThreads) {
          const auto made = own.create(kPods, many, pod("pod-" + std::to_string(i)));
          if (!made && made.error().code != Code::kAlreadyExists) ADD_FAILURE() << made.error().to_string();
        }
      });
    }
  }
  const auto begin = steady_clock::now();
  View view(client(), many);
  ASSERT_TRUE(testing::wait_until([&] { return view.informer().synced(); }, std::chrono::seconds(60)));
  const auto cold = duration_cast<milliseconds>(steady_clock::now() - begin);
  EXPECT_EQ(view.size(), std::size_t{kPodCount});
  EXPECT_EQ(view.informer().counters().lists, 1U);
  EXPECT_EQ(view.mistakes(), 0);
  RecordProperty("cold_ms", std::to_string(cold.count()));
  std::cout << "informer: " << kPodCount << " pods in view " << cold.count() << " ms after the start\n";
}

TEST_F(RealInformer, FollowsWhatHappens) {
  make("a");
  View view(client(), ns());
  ASSERT_TRUE(view.wait_for("a"));
  make("b");
  ASSERT_TRUE(view.wait_for("b"));
  end("a");
  EXPECT_TRUE(view.wait_for("a", false));
  EXPECT_EQ(view.informer().counters().lists, 1U);
  EXPECT_EQ(view.mistakes(), 0);
}

TEST_F(RealInformer, AWatchThatEndsInPeaceIsTakenUpAgain) {
  make("a");
  View view(client(), ns(), 2);
  ASSERT_TRUE(view.wait_for("a"));
  ASSERT_TRUE(testing::wait_until([&] { return view.informer().counters().watches >= 3; }));
  make("b");
  EXPECT_TRUE(view.wait_for("b"));
  end("a");
  EXPECT_TRUE(view.wait_for("a", false));
  const auto counters = view.informer().counters();
  EXPECT_EQ(counters.lists, 1U);
  EXPECT_EQ(counters.cut, 0U);
  EXPECT_EQ(view.mistakes(), 0);
}

TEST_F(RealInformer, BookmarksCarryAQuietViewOverACompaction) {
  QM_NEEDS_OWN_PEER();
  make("a");
  View view(client(), ns(), 5);
  ASSERT_TRUE(view.wait_for("a"));
  // Another namespace changes; only a bookmark informs this view of the server's version.
  const auto busy = [&] {
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(client().create(kPods, "default", pod(ns() + "-" + std::to_string(i))));
      ASSERT_TRUE(client().remove(kPods, "default", ns() + "-" + std::to_string(i), {{}, 0, "Background"}));
    }
  };
  busy();
  const auto before = view.informer().counters().bookmarks;
  ASSERT_TRUE(
      testing::wait_until([&] { return view.informer().counters().bookmarks > before; }, std::chrono::seconds(60)));
  compact();
  make("b");
  EXPECT_TRUE(view.wait_for("b"));
  EXPECT_EQ(view.informer().counters().lists, 1U);
  EXPECT_EQ(view.informer().counters().expired, 0U);
}

TEST_F(RealInformer, ARestartedServerIsTakenUpAgain) {
  QM_NEEDS_OWN_PEER();
  make("a");
  make("b");
  View view(client(), ns());
  ASSERT_TRUE(view.wait_for("b"));
  peer({"restart", "api"});
  end("a");
  make("c");
  EXPECT_TRUE(view.wait_for("c"));
  EXPECT_TRUE(view.wait_for("a", false));
  EXPECT_TRUE(view.has("b"));
  EXPECT_EQ(view.mistakes(), 0);
}

TEST_F(RealInformer, AKilledServerAndAnExpiredVersionLoseNothing) {
  QM_NEEDS_OWN_PEER();
  make("a");
  make("b");
  View view(client(), ns());
  ASSERT_TRUE(view.wait_for("b"));
  peer({"kill9", "api"});
  compact();
  peer({"restart", "api"});
  end("a");
  make("c");
  compact();
  EXPECT_TRUE(view.wait_for("c"));
  EXPECT_TRUE(view.wait_for("a", false));
  EXPECT_TRUE(view.has("b"));
  EXPECT_EQ(view.mistakes(), 0);
}

}  // namespace informer_k8s_test
}  // namespace qm::kube
