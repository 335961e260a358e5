#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// MIG-capable GPUs of NVIDIA: models, profiles, and selection of the smallest sufficient profile.
///
/// Threads  any; the tables are constant.
/// Cost     linear search in a short table; no state.
namespace qm::catalog::mig {

/// The index of a profile in its geometry: small profiles first.
using ProfileId = std::uint8_t;

/// One kind of MIG instance: the slices it uses, and the positions on the memory axis where it may begin.
///
/// Units    compute and memory in slices of the GPU; starts are memory slices.
struct Profile {
  std::string_view shape;  ///< "1g", "1g+me", "1g.2m", "2g", ...: without the memory size, which depends on the model
  std::int8_t compute = 0, memory = 0;
  std::int8_t most = 0;  ///< maximum number of instances on one GPU
  bool media = false;    ///< with the media extensions; a GPU has one set of them
  std::vector<std::int8_t> starts;
};

/// The legal MIG partitions of a GPU. A set of instances is legal under three conditions: their memory does not
/// overlap; each begins at an allowed position; the limits of compute, of each profile and of the media extensions
/// hold.
struct Geometry {
  std::int8_t compute_slices = 0, memory_slices = 0;
  std::vector<Profile> profiles;
};

/// The GPUs of one family have the same geometry; only the names and sizes of the profiles differ.
enum class Family : std::uint8_t {
  kSeven,  ///< A100, H100, H200, B200, GB200, B300: seven compute and eight memory slices
  kFour,   ///< A30, RTX PRO 6000 Blackwell: four and four
};

/// Source   nvidia-smi listings of A100 and H100; for the other models by profile counts alone. NVIDIA's mock tables
///          for H100 and later have simplified placements, which real listings contradict.
const Geometry& geometry_of(Family family);

/// The indexes of a family's profiles.
namespace seven {
inline constexpr ProfileId k1g = 0, k1gMedia = 1, k1gDouble = 2, k2g = 3, k3g = 4, k4g = 5, k7g = 6;
inline constexpr std::size_t kProfiles = 7;
}  // namespace seven
namespace four {
inline constexpr ProfileId k1g = 0, k1gMedia = 1, k2g = 2, k2gMedia = 3, k4g = 4;
}  // namespace four

/// A profile of one model.
struct ModelProfile {
  std::string_view name;  ///< "1g.10gb", "1g.10gb+me"; empty where the model has no such profile
  std::int32_t memory_gb = 0;
  std::int32_t sms = 0;  ///< as nvidia-smi reports them; 0 = not known
};

/// A MIG-capable GPU model.
struct Model {
  std::string_view name;  ///< "H100-80GB"
  Family family = Family::kSeven;
  std::span<const ModelProfile> profiles;  ///< by ProfileId
};

std::span<const Model> models();

/// Finds the model for the node label nvidia.com/gpu.product ("NVIDIA-H100-80GB-HBM3"), for the catalog's product, or
/// for the model name itself. The label may have the device plugin's suffixes "-MIG-1g.10gb", "-SHARED". Null: a GPU
/// without MIG, or unknown.
const Model* model_of(std::string_view product);

/// Finds the profile by its name, "1g.10gb+me", or by its Kubernetes resource, "nvidia.com/mig-1g.10gb.me", with or
/// without that prefix. The same name may be another profile on another model: 1g.10gb has one memory slice on an
/// A100-80GB and two on an A100-40GB.
std::optional<ProfileId> profile_of(const Model& model, std::string_view name);

/// The inverse: "nvidia.com/mig-1g.10gb.me". Requires that the model has the profile.
std::string resource_of(const Model& model, ProfileId profile);

/// The smallest profile with at least this memory and this number of SMs, 0 = any; without media extensions. Smaller
/// means fewer memory slices, then fewer compute slices. None if no profile is large enough, or if SMs are requested
/// of a model whose SM counts are not known.
std::optional<ProfileId> smallest_with(const Model& model, std::int32_t memory_gb, std::int32_t sms);

}  // namespace qm::catalog::mig
