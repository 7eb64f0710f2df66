#include <ATen/ATen.h>

#include <algorithm>
#include <iostream>
#include <thread>

#include "tensors/base/error.hpp"
#include "tensors/base/sha256.hpp"
#include "tests/tensors/partial_model_support.hpp"
// Catch2 comes last: LibTorch's CHECK would replace its own.
#include <catch2/catch.hpp>

namespace zerolock::test {
namespace {

using Catch::Contains;
using nlohmann::json;

/// The files of a partial model against those that the whole one was opened from.
void require_equal_files(const ServedModel& served, const PartialModel& partial) {
  for (const ModelFileSize& file : served.parts.files()) {
    INFO(file.name);
    const bool gguf = partial.manifest().gguf;
    const auto source = gguf ? served.files->path() : served.files->path() / file.name;
    const auto copy = gguf ? partial.path() : partial.path() / file.name;
    REQUIRE(read_bytes(source).size() == file.bytes);
    REQUIRE(read_bytes(copy) == read_bytes(source));
  }
}

std::filesystem::path record_of(const PartialModel& partial) {
  const auto files = partial.manifest().gguf ? partial.path().parent_path() : partial.path();
  return files.parent_path() / "complete";
}

void flip_byte(const std::filesystem::path& file, std::uint64_t offset) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(static_cast<std::streamoff>(offset));
  const int byte = stream.get();
  stream.seekp(static_cast<std::streamoff>(offset));
  stream.put(static_cast<char>(byte ^ 1));
}

std::vector<std::size_t> all_parts(const PartialModel& partial) {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < partial.manifest().parts.size(); ++i) indices.push_back(i);
  return indices;
}

}  // namespace

TEST_CASE("a model's parts are cut alike for all stages and carry their hashes", "[parts]") {
  for (const std::string& kind : model_kinds) {
    INFO(kind);
    const ServedModel served(kind);
    std::vector<ModelPart> parts;
    for (std::size_t stage = 0; stage < 3; ++stage) {
      const ModelManifest manifest = served.stage(stage);
      REQUIRE(manifest.content_hash == served.files->content_hash());
      REQUIRE((manifest.files == served.parts.files()));
      parts.insert(parts.end(), manifest.parts.begin(), manifest.parts.end());
    }
    std::sort(parts.begin(), parts.end());
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    std::size_t longest = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const bool apart = i == 0 || parts[i].file > parts[i - 1].file ||
                         parts[i].offset >= parts[i - 1].offset + parts[i - 1].length;
      REQUIRE(apart);
      REQUIRE(parts[i].sha256 == sha256_of(bytes_of(served.parts, parts[i])));
      longest = std::max<std::size_t>(longest, parts[i].length);
    }
    REQUIRE(longest <= model_part_bytes_max);
    REQUIRE((longest == model_part_bytes_max) == (kind == "tied"));
    const ModelManifest whole = served.parts.manifest({0, 6}, true);
    REQUIRE((whole.parts == parts));
  }
}

TEST_CASE("a stage is given its own tensors, the norm and the head, and nothing else", "[parts]") {
  for (const std::string& kind : model_kinds) {
    INFO(kind);
    const ServedModel served(kind);
    for (std::size_t stage = 0; stage < 3; ++stage) {
      const TemporaryFolder cache;
      PartialModel partial(cache.path(), served.stage(stage));
      REQUIRE(partial.missing() == all_parts(partial));
      fetch(served.parts, partial);
      REQUIRE(partial.missing().empty());
      const auto model = partial.open();
      REQUIRE(model->content_hash() == served.files->content_hash());
      for (const std::string& name : served.files->names()) {
        INFO(name);
        bool wanted = name == "model.norm.weight";
        if (name == "model.embed_tokens.weight") wanted = stage == 0 || kind == "tied";
        if (name == "lm_head.weight") wanted = kind != "tied";
        for (std::int64_t layer = 0; layer < 6; ++layer) {
          const LayerRange& range = served.partition[stage];
          if (name.starts_with("model.layers." + std::to_string(layer) + ".")) {
            wanted = layer >= range.first && layer < range.last;
          }
        }
        REQUIRE(model->contains(name) == wanted);
        if (wanted) {
          REQUIRE(model->tensor(name).expand().equal(served.files->tensor(name).expand()));
        } else {
          REQUIRE_THROWS_WITH(model->tensor(name), Contains(name) && Contains("not fetched"));
        }
      }
    }
  }
}

TEST_CASE("the stages' parts together are the model's files, byte for byte", "[parts]") {
  const TemporaryFolder cache;  // of all kinds: two of them have the same content in other files
  for (const char* kind : {"folder", "sharded", "gguf"}) {
    INFO(kind);
    const ServedModel served(kind);
    for (std::size_t stage = 0; stage < 3; ++stage) {
      PartialModel partial(cache.path(), served.stage(stage));
      // What an earlier stage of this machine fetched is not missing.
      REQUIRE((partial.missing().size() < partial.manifest().parts.size()) == (stage > 0));
      fetch(served.parts, partial);
    }
    const PartialModel whole(cache.path(), served.parts.manifest({0, 6}, true));
    REQUIRE(whole.missing().empty());
    require_equal_files(served, whole);
    REQUIRE(ModelFiles::open(whole.path())->content_hash() == served.files->content_hash());
  }
}

TEST_CASE("only parts of the model are read for others", "[parts][bad-input]") {
  const ServedModel served("sharded");
  const ModelPart part = served.stage(1).parts.back();
  REQUIRE_NOTHROW(bytes_of(served.parts, part));
  const auto refused = [&](std::uint64_t file, std::uint64_t offset, std::uint64_t length) {
    REQUIRE_THROWS_AS(served.parts.read_part(file, offset, length), InputError);
  };
  refused(part.file, part.offset, part.length + 1);
  refused(part.file, part.offset, part.length - 1);
  refused(part.file, part.offset + 1, part.length - 1);
  refused(part.file + 100, part.offset, part.length);
  refused(UINT64_MAX, UINT64_MAX, UINT64_MAX);
  refused(0, 0, 0);
  for (const LayerRange& layers : {LayerRange{-1, 2}, LayerRange{2, 2}, LayerRange{4, 7}}) {
    REQUIRE_THROWS_AS(served.parts.manifest(layers, false), InputError);
  }
  const auto random = make_random_model(served.files->config(), 1, StorageFormat::f32);
  REQUIRE_THROWS_WITH(ModelParts(random), Contains("not a model on disk"));
}

TEST_CASE("stages may ask for their manifests at once", "[parts]") {
  const ServedModel served("tied");
  std::vector<ModelManifest> manifests(6);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < manifests.size(); ++i) {
    threads.emplace_back([&, i] { manifests[i] = served.stage(i % 3); });
  }
  for (std::thread& thread : threads) thread.join();
  const ServedModel again("tied");
  for (std::size_t i = 0; i < manifests.size(); ++i) REQUIRE(manifests[i] == again.stage(i % 3));
}

TEST_CASE("a fetch that was cut off goes on where it stopped", "[parts]") {
  const ServedModel served("folder");
  const TemporaryFolder cache;
  const ModelManifest manifest = served.stage(0);
  const std::size_t half = manifest.parts.size() / 2;
  REQUIRE(half > 0);
  {
    PartialModel partial(cache.path(), manifest);
    fetch(served.parts, partial, half);
    REQUIRE_FALSE(std::filesystem::exists(record_of(partial)));
  }
  PartialModel resumed(cache.path(), manifest);
  REQUIRE(resumed.missing().size() == manifest.parts.size() - half);
  REQUIRE(std::filesystem::exists(record_of(resumed)));
  fetch(served.parts, resumed);
  REQUIRE(PartialModel(cache.path(), manifest).missing().empty());
}

TEST_CASE("a part that is half written when its writer dies is fetched again", "[parts]") {
  const ServedModel served("folder");
  const TemporaryFolder cache;
  const ModelManifest manifest = served.stage(0);
  const std::size_t last = manifest.parts.size() - 1;
  const ModelPart& part = manifest.parts[last];
  {
    const PartialModel partial(cache.path(), manifest);
    const auto bytes = bytes_of(served.parts, part);
    std::fstream file(partial.path() / manifest.files[part.file].name,
                      std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(part.offset));
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(part.length / 2));
  }
  PartialModel resumed(cache.path(), manifest);
  REQUIRE(resumed.missing() == all_parts(resumed));
  fetch(served.parts, resumed);
  REQUIRE(resumed.open()->contains("model.norm.weight"));
}

TEST_CASE("a damaged record costs reading, not fetching", "[parts][bad-input]") {
  const ServedModel served("gguf");
  const TemporaryFolder cache;
  const ModelManifest manifest = served.stage(2);
  PartialModel partial(cache.path(), manifest);
  fetch(served.parts, partial);
  const std::string record = read_bytes(record_of(partial));
  std::string flipped = record;
  flipped[record.size() / 2] = static_cast<char>(flipped[record.size() / 2] ^ 1);
  const std::string broken[] = {"",
                                "x",
                                record.substr(0, record.size() / 2),
                                record.substr(0, record.size() - 1),
                                flipped,
                                std::string(5000, '\0')};
  for (const std::string& bytes : broken) {
    write_bytes(record_of(partial), bytes);
    REQUIRE(PartialModel(cache.path(), manifest).missing().empty());
    REQUIRE(read_bytes(record_of(partial)) == record);
  }
  // Without the record a part that changed on disk does not pass for one in place.
  std::filesystem::remove(record_of(partial));
  flip_byte(partial.path(), manifest.parts.back().offset);
  REQUIRE(PartialModel(cache.path(), manifest).missing() == std::vector{manifest.parts.size() - 1});
}

TEST_CASE("the record is believed until the parts are verified", "[parts]") {
  const ServedModel served("gguf");
  const TemporaryFolder cache;
  const ModelManifest manifest = served.stage(2);
  PartialModel first(cache.path(), manifest);
  fetch(served.parts, first);
  const std::size_t damaged = manifest.parts.size() - 1;
  flip_byte(first.path(), manifest.parts[damaged].offset);
  PartialModel second(cache.path(), manifest);
  REQUIRE(second.missing().empty());
  second.verify();
  REQUIRE(second.missing() == std::vector{damaged});
  REQUIRE_THROWS(second.open());
  REQUIRE(PartialModel(cache.path(), manifest).missing() == std::vector{damaged});
  fetch(served.parts, second);
  second.verify();
  REQUIRE(second.missing().empty());
}

TEST_CASE("files that were removed or cut from a cache are fetched again", "[parts]") {
  const ServedModel served("sharded");
  const TemporaryFolder cache;
  const ModelManifest manifest = served.stage(1);
  PartialModel partial(cache.path(), manifest);
  fetch(served.parts, partial);
  const std::uint64_t file = manifest.parts.back().file;
  const auto path = partial.path() / manifest.files[file].name;
  if (GENERATE(true, false)) {
    std::filesystem::remove(path);
  } else {
    std::filesystem::resize_file(path, 1);
  }
  PartialModel again(cache.path(), manifest);
  for (std::size_t i = 0; i < manifest.parts.size(); ++i) {
    const std::vector<std::size_t> missing = again.missing();
    const bool gone = std::find(missing.begin(), missing.end(), i) != missing.end();
    REQUIRE(gone == (manifest.parts[i].file == file));
  }
  fetch(served.parts, again);
  REQUIRE(again.open()->names().size() == partial.open()->names().size());
}

TEST_CASE("bytes that are not the part's are refused by file and offset", "[parts][bad-input]") {
  const ServedModel served("folder");
  const TemporaryFolder cache;
  PartialModel partial(cache.path(), served.stage(0));
  const std::size_t index = partial.manifest().parts.size() - 1;
  const ModelPart& part = partial.manifest().parts[index];
  const auto bytes = bytes_of(served.parts, part);
  std::vector<std::byte> wrong(bytes.begin(), bytes.end());
  wrong[wrong.size() / 2] ^= std::byte{4};
  const std::string before = read_bytes(partial.path() / "model.safetensors");
  const std::string place = "model.safetensors, bytes " + std::to_string(part.offset) + " to ";
  REQUIRE_THROWS_WITH(partial.put(index, wrong), Contains(place) && Contains("SHA-256 differs"));
  REQUIRE_THROWS_AS(partial.put(index, wrong), InputError);
  REQUIRE_THROWS_WITH(partial.put(index, bytes.first(3)), Contains(place) && Contains("came as 3 bytes"));
  REQUIRE_THROWS_AS(partial.put(index + 1, bytes), InputError);
  REQUIRE(partial.missing() == all_parts(partial));
  REQUIRE(read_bytes(partial.path() / "model.safetensors") == before);
  REQUIRE_NOTHROW(partial.put(index, bytes));
  REQUIRE_NOTHROW(partial.put(index, bytes));
  REQUIRE(partial.missing().size() == index);
}

TEST_CASE("several executors fill one cache at once", "[parts]") {
  const ServedModel served("sharded");
  const TemporaryFolder cache;
  std::vector<std::thread> executors;
  for (std::size_t i = 0; i < 6; ++i) {
    executors.emplace_back([&, i] {
      PartialModel partial(cache.path(), served.stage(i % 3));
      fetch(served.parts, partial);
    });
  }
  for (std::thread& executor : executors) executor.join();
  PartialModel whole(cache.path(), served.parts.manifest({0, 6}, true));
  REQUIRE(whole.missing().empty());
  whole.verify();
  REQUIRE(whole.missing().empty());
  require_equal_files(served, whole);
}

TEST_CASE("a disk without room for the parts is refused before anything is fetched", "[parts][bad-input]") {
  const TemporaryFolder cache;
  const std::uint64_t available = std::filesystem::space(cache.path()).available;
  if (available > std::uint64_t{1} << 40U) {
    std::cerr << "skipped: the disk is too large to ask for more\n";
    return;
  }
  const std::uint64_t count = available / model_part_bytes_max + 100;
  ModelManifest manifest;
  manifest.content_hash = std::string(64, 'a');
  manifest.gguf = true;
  manifest.files = {{"model.gguf", count * model_part_bytes_max}};
  for (std::uint64_t i = 0; i < count; ++i) {
    manifest.parts.push_back({0, i * model_part_bytes_max, model_part_bytes_max, std::string(64, 'b')});
  }
  REQUIRE_THROWS_WITH(PartialModel(cache.path(), manifest), Contains(cache.path().string()) &&
                                                                Contains("has room for") &&
                                                                Contains(std::to_string(manifest.bytes())));
  REQUIRE_THROWS_AS(PartialModel(cache.path(), manifest), RunError);
}

TEST_CASE("manifests come back from their text", "[parts]") {
  for (const std::string& kind : model_kinds) {
    const ServedModel served(kind);
    const ModelManifest manifest = served.stage(0);
    const std::string text = model_manifest_text(manifest);
    REQUIRE(text.find('\n') == std::string::npos);
    REQUIRE(model_manifest_from_text("test", text) == manifest);
  }
}

TEST_CASE("manifests of several stages merge into what they need together", "[parts]") {
  const ServedModel served("sharded");
  const auto merged = [](const ModelManifest& left, const ModelManifest& right) {
    return merge_model_manifests("the manifests", left, right);
  };
  const ModelManifest first = served.stage(0);
  const ModelManifest last = served.stage(2);
  REQUIRE(merged(first, first) == first);
  REQUIRE(merged(first, served.stage(1)) == served.parts.manifest({0, 4}, true));
  REQUIRE(merged(first, last) == merged(last, first));
  REQUIRE(merged(merged(first, last), served.stage(1)) == served.parts.manifest({0, 6}, true));
  const auto refused = [&](const ModelManifest& other, const std::string& reason) {
    REQUIRE_THROWS_WITH(merged(first, other), Catch::StartsWith("the manifests: ") && Contains(reason));
    REQUIRE_THROWS_AS(merged(other, first), InputError);
  };
  ModelManifest other = last;
  other.content_hash = std::string(64, '0');
  refused(other, "are of two models");
  refused(ServedModel("folder").stage(2), "one model in different files");
  other = first;
  other.parts.back().sha256 = std::string(64, '0');
  refused(other, "do not agree on " + first.place_of(first.parts.back()));
  other = first;
  other.parts.back().length -= 1;
  refused(other, "do not agree on ");
}

TEST_CASE("hostile manifests are refused before anything is made of them", "[parts][bad-input]") {
  const ServedModel served("folder");
  const json good = json::parse(model_manifest_text(served.stage(0)));
  const auto refused = [](const std::string& text, const std::string& reason) {
    INFO(text.substr(0, 200));
    REQUIRE_THROWS_WITH(model_manifest_from_text("the peer's manifest", text),
                        Catch::StartsWith("the peer's manifest") && Contains(reason));
    REQUIRE_THROWS_AS(model_manifest_from_text("the peer's manifest", text), InputError);
  };
  const auto refused_with = [&](const std::string& pointer, const json& value, const std::string& reason) {
    json changed = good;
    changed[json::json_pointer(pointer)] = value;
    refused(changed.dump(), reason);
  };
  refused("", "JSON");
  refused(std::string(1'000'000, '['), "JSON");
  refused("{}", "content_hash is missing");
  refused(std::string((std::size_t{64} << 20U) + 1, ' '), "are allowed");
  refused_with("/extra", 1, "\"extra\" is not part");
  refused_with("/content_hash", "../../etc", "64 lower-case hex digits");
  refused_with("/content_hash", std::string(64, 'A'), "64 lower-case hex digits");
  refused_with("/content_hash", 3, "64 lower-case hex digits");
  refused_with("/format", "zip", "format must be");
  refused_with("/format", "gguf", "must be model.gguf alone");
  for (const char* name : {"", ".", "..", "../x", "a/b", "/etc/passwd", "a\\b", ".complete", "a\nb"}) {
    refused_with("/files/0/0", name, "is not the name of a file in a folder");
  }
  refused_with("/files/0/0", std::string(300, 'x'), "is not the name of a file in a folder");
  refused_with("/files/0/0", std::string("a\0b", 3), "is not the name of a file in a folder");
  refused_with("/files/0/0", "model.safetensors", "twice");
  refused_with("/files/0/0", "other.json", "lack config.json");
  refused_with("/files/0/1", 0, "size: must be an integer from 1");
  refused_with("/files/0/1", -5, "size: must be an integer from 1");
  refused_with("/files/0/1", 1e3, "size: must be an integer from 1");
  refused_with("/files/0/1", UINT64_MAX, "size: must be an integer from 1");
  refused_with("/files", json::array(), "files must be 1 to");
  refused_with("/files", json(std::vector<int>(5000)), "files must be 1 to");
  refused_with("/files/0", json::array({"config.json"}), "list of 2 values");
  refused_with("/parts", 7, "parts must be a list");
  refused_with("/parts", json::array(), "lack the start of a file");
  refused_with("/parts/0", json::array({0, 0, 1}), "list of 4 values");
  refused_with("/parts/0/0", 99, "part 0, file: must be an integer from 0 to 1");
  refused_with("/parts/1/1", UINT64_MAX, "part 1, offset: must be");
  refused_with("/parts/1/2", UINT64_MAX, "part 1, length: must be");
  refused_with("/parts/1/2", 0, "part 1, length: must be");
  refused_with("/parts/0/3", "short", "part 0, SHA-256: must be");
  json doubled = good;
  doubled["parts"].push_back(doubled["parts"].back());
  refused(doubled.dump(), "overlaps the part before it");
  json swapped = good;
  std::swap(swapped["parts"][0], swapped["parts"][1]);
  refused(swapped.dump(), "overlaps the part before it or should stand before it");
}

}  // namespace zerolock::test
