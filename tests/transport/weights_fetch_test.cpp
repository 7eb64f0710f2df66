#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <future>
#include <iterator>
#include <numeric>
#include <optional>

#include "tests/transport/weights_support.hpp"
#include "transport/certificates.hpp"
// Catch2 comes last: LibTorch's CHECK would replace its own.
#include <catch2/catch.hpp>

namespace zerolock {

using namespace test;

namespace {

/// What stages of a model with a separate head need.
std::vector<std::string> names_of(const ServedModel& served, const std::vector<std::int64_t>& layers,
                                  bool embeds) {
  std::vector<std::string> names = served.files->names();
  std::erase_if(names, [&](const std::string& name) {
    if (name == "model.embed_tokens.weight") return !embeds;
    if (!name.starts_with("model.layers.")) return false;
    return std::none_of(layers.begin(), layers.end(), [&](std::int64_t layer) {
      return name.starts_with("model.layers." + std::to_string(layer) + ".");
    });
  });
  return names;
}

/// Two nodes with certificates of one authority.
struct TlsNodes {
  TlsNodes() {
    make_certificates(folder.path(), {{{NodeRole::coordinator, "coordinator"}, {"127.0.0.1"}},
                                      {{NodeRole::executor, "node-a"}, {}}});
  }
  [[nodiscard]] Security of(const std::string& name) const {
    return Security::tls(
        {folder.path() / "ca.pem", folder.path() / (name + ".pem"), folder.path() / (name + ".key")});
  }
  [[nodiscard]] Giver::Settings giver() const {
    Giver::Settings settings;
    settings.security = of("coordinator");
    settings.token = "";
    return settings;
  }
  void use_in(DialOptions& dial) const {
    dial.security = of("node-a");
    dial.hello.token = "";
  }

  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("a device without a model fetches it whole", "[weights]") {
  for (const std::string& kind : model_kinds) {
    INFO(kind);
    const ServedModel served(kind);
    const Giver giver(served.files);
    const TemporaryFolder cache;
    Network network;
    std::vector<std::uint64_t> done;
    std::uint64_t all = 0;
    const auto model = fetch_model(network, fetch_options(giver.address(), cache),
                                   {{}, [&](std::uint64_t bytes, std::uint64_t of) {
                                      done.push_back(bytes);
                                      all = of;
                                    }});
    require_whole(model, served);
    const ModelManifest whole = served.parts.manifest({0, 6}, true);
    REQUIRE(all == whole.bytes());
    REQUIRE(done.size() == whole.parts.size() + 1);
    REQUIRE(done.front() == 0);
    REQUIRE(done.back() == all);
    REQUIRE(std::is_sorted(done.begin(), done.end()));
    REQUIRE(giver.accepted() == 1);
    if (kind == "tied") continue;
    for (const ModelFileSize& file : served.parts.files()) {
      const bool gguf = kind == "gguf";
      REQUIRE(read_bytes(gguf ? model->path() : model->path() / file.name) ==
              read_bytes(gguf ? served.files->path() : served.files->path() / file.name));
    }
  }
}

TEST_CASE("a model crosses TLS", "[weights]") {
  const TlsNodes nodes;
  const ServedModel served("tied");
  const Giver giver(served.files, nodes.giver());
  const TemporaryFolder cache;
  ModelFetchOptions options = fetch_options(giver.address(), cache);
  nodes.use_in(options.dial);
  Network network;
  require_whole(fetch_model(network, options, {}), served);
}

TEST_CASE("the stages of a device are fetched together, and nothing else", "[weights]") {
  const ServedModel served("sharded");
  const Giver giver(served.files);
  const TemporaryFolder cache;
  Network network;
  ModelFetchOptions options = fetch_options(giver.address(), cache);
  options.layers = {{4, 6}, {1, 2}};
  options.embeds = false;
  require_tensors(*fetch_model(network, options, {}), served, names_of(served, {1, 4, 5}, false));
  // The first stage later, from the same cache: only its own parts are asked for.
  options.layers = {{0, 1}};
  options.embeds = true;
  std::uint64_t first_done = 0;
  std::size_t calls = 0;
  const auto model = fetch_model(network, options, {{}, [&](std::uint64_t done, std::uint64_t) {
                                                      if (calls++ == 0) first_done = done;
                                                    }});
  require_tensors(*model, served, names_of(served, {0}, true));
  const ModelManifest first = served.parts.manifest({0, 1}, true);
  const ModelManifest others = served.parts.manifest({1, 2}, false);
  std::vector<ModelPart> shared;
  std::set_intersection(first.parts.begin(), first.parts.end(), others.parts.begin(), others.parts.end(),
                        std::back_inserter(shared));
  REQUIRE(calls == first.parts.size() - shared.size() + 1);
  REQUIRE(first_done ==
          std::accumulate(shared.begin(), shared.end(), std::uint64_t{0},
                          [](std::uint64_t sum, const ModelPart& part) { return sum + part.length; }));
}

TEST_CASE("a fetch goes on over broken connections", "[weights]") {
  const ServedModel served("folder");
  const bool with_tls = GENERATE(false, true);
  const TlsNodes nodes;
  constexpr std::size_t answers_each = 3;
  Giver::Settings settings = with_tls ? nodes.giver() : Giver::Settings{};
  settings.tap = [](Connection&, std::size_t number, Frame&) { return number < answers_each; };
  const Giver giver(served.files, std::move(settings));
  const TemporaryFolder cache;
  ModelFetchOptions options = fetch_options(giver.address(), cache);
  if (with_tls) nodes.use_in(options.dial);
  Network network;
  require_whole(fetch_model(network, options, {}), served);
  // Nothing that had come was asked for again: one answer for each layer's manifest and for each part.
  const std::size_t answers = 6 + served.parts.manifest({0, 6}, true).parts.size();
  REQUIRE(answers > 4 * answers_each);
  REQUIRE(giver.accepted() == (answers + answers_each - 1) / answers_each);
}

TEST_CASE("a fetch outlives its coordinator's restart", "[weights]") {
  const ServedModel served("sharded");
  constexpr std::size_t before = 8;
  std::promise<void> reached;
  std::promise<void> gate;
  const std::shared_future<void> open = gate.get_future().share();
  auto first = std::make_unique<Giver>(served.files, tapped([&](Connection&, std::size_t number, Frame&) {
                                         if (number < before) return true;
                                         if (number == before) reached.set_value();
                                         open.wait();
                                         return false;
                                       }));
  const Address address = first->address();
  const TemporaryFolder cache;
  Network network;
  auto fetched =
      std::async(std::launch::async, [&] { return fetch_model(network, fetch_options(address, cache), {}); });
  reached.get_future().wait();
  first->close_network();
  gate.set_value();
  first.reset();
  std::atomic<std::size_t> answers{0};
  Giver::Settings settings = tapped([&](Connection&, std::size_t, Frame&) {
    ++answers;
    return true;
  });
  settings.port = address.port;
  const Giver second(served.files, std::move(settings));
  require_whole(fetched.get(), served);
  REQUIRE(answers == 6 + served.parts.manifest({0, 6}, true).parts.size() - before);
}

TEST_CASE("a fetch that is told to stop keeps what it has, verified when it goes on", "[weights]") {
  const ServedModel served("folder");
  const Giver giver(served.files);
  const TemporaryFolder cache;
  Network network;
  const ModelFetchOptions options = fetch_options(giver.address(), cache);
  std::uint64_t stopped_at = 0;
  std::size_t parts = 0;
  const auto none = fetch_model(network, options,
                                {[&] { return parts > 5; },
                                 [&](std::uint64_t done, std::uint64_t) {
                                   ++parts;
                                   stopped_at = done;
                                 }});
  REQUIRE_FALSE(none);
  const ModelManifest manifest = served.parts.manifest({0, 6}, true);
  REQUIRE(stopped_at > 0);
  REQUIRE(stopped_at < manifest.bytes());
  std::uint64_t lost = 0;
  if (GENERATE(false, true)) {
    // Parts are asked for in order, so the first one is there. Opened once, it is noted as complete.
    const PartialModel partial(cache.path(), manifest);
    const ModelPart& first = manifest.parts.front();
    lost = first.length;
    std::fstream file(partial.path() / manifest.files[first.file].name,
                      std::ios::binary | std::ios::in | std::ios::out);
    file.put('?');
  }
  std::optional<std::uint64_t> resumed_at;
  const auto model = fetch_model(network, options, {{}, [&](std::uint64_t done, std::uint64_t) {
                                                      if (!resumed_at) resumed_at = done;
                                                    }});
  REQUIRE(resumed_at == stopped_at - lost);
  require_whole(model, served);
}

TEST_CASE("a fetch can be stopped while nobody answers", "[weights]") {
  const RawListener silent;
  const TemporaryFolder cache;
  Network network;
  int asked = 0;
  REQUIRE_FALSE(
      fetch_model(network, fetch_options(silent.address(), cache), {[&] { return ++asked == 3; }, {}}));
  REQUIRE(asked == 3);
}

TEST_CASE("several devices and stages fetch at once", "[weights]") {
  const ServedModel served("gguf");
  const Giver giver(served.files);
  const TemporaryFolder shared_cache;
  const TemporaryFolder own_cache;
  Network network;
  std::vector<std::future<std::shared_ptr<const ModelFiles>>> models;
  const std::vector<std::vector<std::int64_t>> layers{{0, 1}, {2, 3}, {4, 5}, {2, 3}};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    ModelFetchOptions options = fetch_options(giver.address(), i == 3 ? own_cache : shared_cache);
    options.layers = {{layers[i].front(), layers[i].back() + 1}};
    options.embeds = i == 0;
    models.push_back(
        std::async(std::launch::async, [&network, options] { return fetch_model(network, options, {}); }));
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    INFO(i);
    require_tensors(*models[i].get(), served, names_of(served, layers[i], i == 0));
  }
  REQUIRE(giver.accepted() == layers.size());
}
}  // namespace zerolock
