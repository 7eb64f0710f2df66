#include <ATen/ATen.h>

#include <fstream>

#include "actors/checkpoint_files.hpp"
#include "tensors/base/error.hpp"
#include "tests/temporary_folder.hpp"

#include <catch2/catch.hpp>

using namespace zerolock;
using test::TemporaryFolder;

namespace {

constexpr StageIndex stage{1};

StageState state_of(std::uint64_t window, double value = 1.5) {
  StageState state;
  state.window = WindowIndex{window};
  state.tensors["lora.base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight"] =
      at::full({2, 3}, value, at::kDouble);
  state.tensors["optimizer.first_moment.base_model.model.model.layers.4.mlp.up_proj.lora_B.weight"] =
      at::full({4}, value, at::kFloat);
  state.metadata["optimizer.steps"] = std::to_string(window);
  return state;
}

bool same(const StageState& a, const StageState& b) {
  if (a.window != b.window || a.metadata != b.metadata || a.tensors.size() != b.tensors.size()) return false;
  for (const auto& [name, tensor] : a.tensors) {
    const auto other = b.tensors.find(name);
    if (other == b.tensors.end() || other->second.scalar_type() != tensor.scalar_type()) return false;
    if (!other->second.equal(tensor)) return false;
  }
  return true;
}

void flip_byte(const std::filesystem::path& file, std::int64_t at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(at, at < 0 ? std::ios::end : std::ios::beg);
  const auto place = stream.tellg();
  const char byte = static_cast<char>(stream.get());
  stream.seekp(place);
  stream.put(static_cast<char>(byte ^ 1));
}

}  // namespace

TEST_CASE("a checkpoint gives back the state it was made from", "[checkpoint]") {
  const TemporaryFolder root;
  write_checkpoint(root.path(), stage, state_of(12));
  CHECK(std::filesystem::exists(root.path() / "stage-1" / "window-000012" / "manifest.json"));
  CHECK(same(read_checkpoint(root.path(), stage, WindowIndex{12}), state_of(12)));
  CHECK(verify_checkpoint(root.path(), stage, WindowIndex{12}).empty());
  CHECK((checkpoint_stages(root.path()) == std::vector<StageIndex>{stage}));
}

TEST_CASE("a damaged checkpoint is named and the one before is used", "[checkpoint]") {
  const TemporaryFolder root;
  write_checkpoint(root.path(), stage, state_of(1));
  write_checkpoint(root.path(), stage, state_of(2));
  const auto folder = checkpoint_folder(root.path(), stage, WindowIndex{2});
  std::string bad = "state.safetensors";
  SECTION("a flipped bit in the state") {
    flip_byte(folder / "state.safetensors", -1);
  }
  SECTION("a torn state") {
    std::filesystem::resize_file(folder / "state.safetensors", 40);
  }
  SECTION("no state") {
    std::filesystem::remove(folder / "state.safetensors");
  }
  SECTION("a flipped bit in the manifest") {
    bad = "manifest.json";
    flip_byte(folder / "manifest.json", 60);
  }
  SECTION("a torn manifest") {
    bad = "manifest.json";
    std::filesystem::resize_file(folder / "manifest.json", 30);
  }
  SECTION("no manifest") {
    bad = "manifest.json";
    std::filesystem::remove(folder / "manifest.json");
  }
  CHECK_THAT(verify_checkpoint(root.path(), stage, WindowIndex{2}), Catch::Contains(bad));
  CHECK_THROWS_AS(read_checkpoint(root.path(), stage, WindowIndex{2}), InputError);
  const auto restored = restore_newest_checkpoint(root.path(), stage, WindowIndex{9});
  REQUIRE(restored.state.has_value());
  CHECK(same(*restored.state, state_of(1)));
  REQUIRE(restored.problems.size() == 1);
  CHECK_THAT(restored.problems.front(), Catch::Contains((folder / bad).string()));
  CHECK(common_durable_window(root.path(), 1) == std::nullopt);  // stage 0 has none
  write_checkpoint(root.path(), stage, state_of(2));             // and it can be written again
  CHECK(verify_checkpoint(root.path(), stage, WindowIndex{2}).empty());
}

TEST_CASE("a write that is cut short anywhere leaves the checkpoint before it", "[checkpoint]") {
  for (const FaultPoint point : {FaultPoint::checkpoint_temp, FaultPoint::checkpoint_rename}) {
    const TemporaryFolder root;
    write_checkpoint(root.path(), stage, state_of(1));
    const auto cut = [&](FaultPoint reached) {
      if (reached == point) throw RunError("the disk is full");
    };
    CHECK_THROWS_AS(write_checkpoint(root.path(), stage, state_of(2), cut), RunError);
    CHECK(restore_newest_checkpoint(root.path(), stage, WindowIndex{2}).state->window == WindowIndex{1});
    write_checkpoint(root.path(), stage, state_of(2));
    CHECK(restore_newest_checkpoint(root.path(), stage, WindowIndex{2}).state->window == WindowIndex{2});
  }
}

TEST_CASE("a failing disk is named with its file", "[checkpoint]") {
  const TemporaryFolder root;
  std::ofstream(root.path() / "stage-1") << "a file where a folder should be";
  CHECK_THROWS_WITH(write_checkpoint(root.path(), stage, state_of(1)), Catch::Contains("stage-1"));
}

TEST_CASE("a state of the same window with other numbers replaces the old one", "[checkpoint]") {
  const TemporaryFolder root;
  write_checkpoint(root.path(), stage, state_of(0, 1.0));
  write_checkpoint(root.path(), stage, state_of(0, 2.0));
  CHECK(same(read_checkpoint(root.path(), stage, WindowIndex{0}), state_of(0, 2.0)));
}

TEST_CASE("windows from the line on and the newest good one before it are kept", "[checkpoint]") {
  const TemporaryFolder root;
  for (std::uint64_t w = 0; w <= 5; ++w) write_checkpoint(root.path(), stage, state_of(w));
  flip_byte(checkpoint_folder(root.path(), stage, WindowIndex{2}) / "state.safetensors", -1);
  retire_checkpoints(root.path(), stage, WindowIndex{3});
  CHECK((checkpoint_windows(root.path(), stage) ==
         std::vector<WindowIndex>{WindowIndex{1}, WindowIndex{3}, WindowIndex{4}, WindowIndex{5}}));
  discard_checkpoints_after(root.path(), stage, WindowIndex{3});
  CHECK((checkpoint_windows(root.path(), stage) == std::vector<WindowIndex>{WindowIndex{1}, WindowIndex{3}}));
}

TEST_CASE("a run is taken up where all stages have a good checkpoint", "[checkpoint]") {
  const TemporaryFolder root;
  for (std::uint64_t w = 0; w <= 3; ++w) write_checkpoint(root.path(), StageIndex{0}, state_of(w));
  for (std::uint64_t w = 0; w <= 2; ++w) write_checkpoint(root.path(), StageIndex{1}, state_of(w));
  CHECK(common_durable_window(root.path(), 2) == WindowIndex{2});
  flip_byte(checkpoint_folder(root.path(), StageIndex{0}, WindowIndex{2}) / "state.safetensors", -1);
  CHECK(common_durable_window(root.path(), 2) == WindowIndex{1});
}

TEST_CASE("states are cut again by layer", "[checkpoint]") {
  StageState first = state_of(4);
  StageState second;
  second.window = first.window;
  second.metadata = first.metadata;
  second.tensors["lora.base_model.model.model.layers.10.self_attn.v_proj.lora_B.weight"] = at::ones({2});
  const StageState merged = merge_states({first, second});
  CHECK(merged.tensors.size() == 3);
  CHECK(cut_state(merged, {0, 4}).tensors.size() == 1);
  CHECK(cut_state(merged, {4, 11}).tensors.size() == 2);
  CHECK(same(merge_states({cut_state(merged, {0, 4}), cut_state(merged, {4, 11})}), merged));
  CHECK_THROWS_AS(merge_states({first, first}), InputError);
  second.metadata["optimizer.steps"] = "9";
  CHECK_THROWS_AS(merge_states({first, second}), InputError);
  StageState with_head = merged;
  with_head.tensors["head.adapter"] = at::ones({1});
  CHECK_THROWS_WITH(cut_state(with_head, {0, 4}), Catch::Contains("head.adapter"));
}
