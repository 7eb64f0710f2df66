#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <optional>
#include <span>

#include "tests/transport/weights_support.hpp"
#include "transport/weights/weights_client.hpp"
// Catch2 comes last: LibTorch's CHECK would replace its own.
#include <catch2/catch.hpp>

namespace zerolock {

using namespace std::chrono_literals;
using namespace test;
using Catch::Contains;

TEST_CASE("bytes that are wrong once are asked for again, twice is an error", "[weights][bad-input]") {
  const ServedModel served("folder");
  const ModelManifest manifest = served.parts.manifest({0, 6}, true);
  // The first part follows the manifests of six layers, and is asked for again after all others.
  const std::size_t first = 6;
  const std::size_t second = first + manifest.parts.size();
  const bool twice = GENERATE(false, true);
  std::atomic<std::size_t> answers{0};
  const Giver giver(served.files, tapped([&](Connection&, std::size_t number, Frame& frame) {
                      ++answers;
                      if (number != first && !(twice && number == second)) return true;
                      const PayloadMemory memory = allocate_payload(frame.payload.size());
                      std::copy(frame.payload.bytes.begin(), frame.payload.bytes.end(), memory.bytes.begin());
                      memory.bytes[memory.bytes.size() / 2] ^= std::byte{16};
                      frame.payload = {memory.bytes, memory.owner};
                      return true;
                    }));
  const TemporaryFolder cache;
  const ModelFetchOptions options = fetch_options(giver.address(), cache);
  if (twice) {
    const std::string error = fetch_error(options);
    REQUIRE(error == "coordinator coordinator at " + giver.address().text() + ": " +
                         manifest.place_of(manifest.parts.front()) +
                         ": are not the model's: their SHA-256 differs");
  } else {
    Network network;
    require_whole(fetch_model(network, options, {}), served);
  }
  REQUIRE(answers == second + 1);
  REQUIRE(giver.accepted() == 1);
}

TEST_CASE("manifests that make no sense end a fetch", "[weights][bad-input]") {
  const ServedModel served("folder");
  const auto replace = [](Frame& frame, std::string text) {
    const auto kept = std::make_shared<const std::string>(std::move(text));
    frame.payload = {std::as_bytes(std::span(*kept)), kept};
  };
  Tap tap;
  std::string reason;
  SECTION("no manifest") {
    tap = [&](Connection&, std::size_t, Frame& frame) {
      replace(frame, "{}");
      return true;
    };
    reason = ": the manifest: content_hash is missing";
  }
  SECTION("of another model") {
    tap = [&](Connection&, std::size_t number, Frame& frame) {
      if (number != 2) return true;
      ModelManifest other = served.parts.manifest({2, 3}, false);
      other.content_hash = std::string(64, 'a');
      replace(frame, model_manifest_text(other));
      return true;
    };
    reason = ": the manifests: are of two models, " + served.files->content_hash() + " and " +
             std::string(64, 'a');
  }
  SECTION("no answer about weights at all") {
    tap = [&](Connection&, std::size_t, Frame& frame) {
      frame.metadata = {std::byte{7}};
      return true;
    };
    reason = ": answer about weights";
  }
  const Giver giver(served.files, tapped(tap));
  const TemporaryFolder cache;
  const std::string error = fetch_error(fetch_options(giver.address(), cache));
  REQUIRE_THAT(error, Catch::StartsWith("coordinator coordinator at " + giver.address().text() + reason));
  REQUIRE(std::filesystem::is_empty(cache.path()));
}

TEST_CASE("a fetch that gets nothing gives up and says why", "[weights][bad-input]") {
  const TemporaryFolder cache;
  SECTION("nobody listens") {
    std::optional<RawListener> gone(std::in_place);
    ModelFetchOptions options = fetch_options(gone->address(), cache);
    gone.reset();
    options.progress_limit = 1000ms;
    const std::string address = options.dial.address.text();
    REQUIRE(fetch_error(options) ==
            address + ": nothing of the model came for 1000 ms: " + address + ": nobody listens there");
  }
  SECTION("connections are made and break") {
    const ServedModel served("folder");
    const Giver giver(served.files, tapped([](Connection&, std::size_t, Frame&) { return false; }));
    ModelFetchOptions options = fetch_options(giver.address(), cache);
    options.progress_limit = 1000ms;
    REQUIRE_THAT(fetch_error(options), Contains("nothing of the model came for 1000 ms: ") &&
                                           Contains("closed by the peer: cut by the test"));
  }
  SECTION("requests are left unanswered") {
    Server::Settings settings;
    settings.connection.bounds.allow(FrameType::request, weights_request_bytes_max);
    Server silent(std::move(settings));
    ModelFetchOptions options = fetch_options(silent.address(), cache);
    options.progress_limit = 100ms;
    REQUIRE_THAT(fetch_error(options), Contains("nothing of the model came for 100 ms: "));
  }
  SECTION("somebody else than expected, at once") {
    const ServedModel served("folder");
    const Giver giver(served.files);
    ModelFetchOptions options = fetch_options(giver.address(), cache);
    options.dial.peer = {NodeRole::coordinator, "main"};
    REQUIRE(fetch_error(options) ==
            giver.address().text() + ": the peer is coordinator coordinator, expected was coordinator main");
  }
}

TEST_CASE("what a model does not have is refused in one line", "[weights][bad-input]") {
  const ServedModel served("folder");
  const Giver giver(served.files);
  SECTION("layers, without trying again") {
    const TemporaryFolder cache;
    ModelFetchOptions options = fetch_options(giver.address(), cache);
    options.layers = {{5, 8}};
    REQUIRE(fetch_error(options) == "coordinator coordinator at " + giver.address().text() +
                                        ": layers 6 to 7: are not a stage of a model of 6 layers");
    REQUIRE(giver.accepted() == 1);
  }
  SECTION("parts, and what is no request") {
    Network network;
    const auto answer = [&](Frame request) {
      const End end = connect(network, weights_dial(giver.address()));
      REQUIRE(end.connection->send(std::move(request)));
      const std::optional<Frame> frame = end.events->frame();
      REQUIRE(frame);
      REQUIRE(frame->payload.size() == 0);
      const std::string reason = read_weights_refusal(frame->metadata);
      REQUIRE(end.events->cause() == "closed by the peer: " + reason);
      return reason;
    };
    REQUIRE(answer(weights_request_frame(PartRequest{0, 1, 1})) ==
            "file 0, offset 1, length 1: is not a part of the model");
    REQUIRE_THAT(answer(weights_request_frame(PartRequest{UINT64_MAX, UINT64_MAX, UINT64_MAX})),
                 Contains("is not a part of the model"));
    REQUIRE_THAT(answer(weights_request_frame(ManifestRequest{{INT64_MIN, INT64_MAX}, true})),
                 Contains("are not a stage"));
    REQUIRE_THAT(answer({FrameType::request, {}, {}}), Contains("request for weights"));
    REQUIRE_THAT(answer({FrameType::request, {std::byte{9}}, {}}), Contains("unknown kind of request 9"));
    REQUIRE_THAT(answer({FrameType::request, std::vector<std::byte>(32, std::byte{2}), {}}),
                 Contains("request for weights"));
    const End long_one = connect(network, weights_dial(giver.address()));
    long_one.connection->send({FrameType::request, std::vector<std::byte>(33), {}});
    REQUIRE_FALSE(long_one.events->frame());
  }
  // Others are served as before.
  const TemporaryFolder cache;
  Network network;
  require_whole(fetch_model(network, fetch_options(giver.address(), cache), {}), served);
}

TEST_CASE("who asks for more than it may has its connection closed", "[weights][bad-input]") {
  const ServedModel served("folder");
  const ModelPart part = served.stage(0).parts.back();
  const WeightsRequest request = PartRequest{part.file, part.offset, part.length};
  Network network;
  SECTION("more at once") {
    std::promise<void> gate;
    const std::shared_future<void> open = gate.get_future().share();
    const Giver giver(served.files, tapped([&](Connection&, std::size_t, Frame&) {
                        open.wait();
                        return true;
                      }));
    const End end = connect(network, weights_dial(giver.address()));
    for (std::size_t i = 0; i <= weights_requests_max; ++i) {
      REQUIRE(end.connection->send(weights_request_frame(request)));
    }
    CHECK(end.events->cause() == "closed by the peer: more than 8 requests for weights wait for an answer");
    CHECK_FALSE(end.events->frame());
    gate.set_value();
  }
  SECTION("as much as it may is answered in order") {
    const Giver giver(served.files);
    const End end = connect(network, weights_dial(giver.address()));
    const ModelManifest manifest = served.stage(0);
    for (std::size_t i = 0; i < weights_requests_max; ++i) {
      const ModelPart& each = manifest.parts[i % manifest.parts.size()];
      REQUIRE(end.connection->send(weights_request_frame(PartRequest{each.file, each.offset, each.length})));
    }
    for (std::size_t i = 0; i < weights_requests_max; ++i) {
      const std::optional<Frame> frame = end.events->frame();
      REQUIRE(frame);
      const auto bytes = bytes_of(served.parts, manifest.parts[i % manifest.parts.size()]);
      REQUIRE(
          std::equal(bytes.begin(), bytes.end(), frame->payload.bytes.begin(), frame->payload.bytes.end()));
    }
  }
  SECTION("more than the queue for its answers takes") {
    Giver::Settings settings;
    settings.send_queue_bytes = part.length;
    const Giver giver(served.files, std::move(settings));
    const End end = connect(network, weights_dial(giver.address()));
    REQUIRE(end.connection->send(weights_request_frame(request)));
    REQUIRE(end.events->cause() == "closed by the peer: the answers that were asked for are not taken");
  }
}

TEST_CASE("an answer that nobody asked for ends the connection", "[weights][bad-input]") {
  const ServedModel served("folder");
  const Giver giver(served.files, tapped([](Connection& connection, std::size_t, Frame& frame) {
                      connection.send(frame);
                      return true;
                    }));
  Network network;
  WeightsClient client(network, weights_dial(giver.address()), [] {});
  client.ask(ManifestRequest{{0, 1}, true});
  REQUIRE(client.answer().size() > 0);
  REQUIRE_THROWS_WITH(client.answer(),
                      client.peer_text() + ": closed by this side: a part came that nobody had asked for");
  client.ask(ManifestRequest{{0, 1}, true});
  REQUIRE_THROWS_AS(client.answer(), ConnectionLost);
}

TEST_CASE("a server that ends closes its connections and leaves no thread", "[weights]") {
  const ServedModel served("folder");
  Giver giver(served.files);
  Network network;
  const End idle = connect(network, weights_dial(giver.address()));
  const End busy = connect(network, weights_dial(giver.address()));
  const ModelPart part = served.stage(0).parts.back();
  REQUIRE(busy.connection->send(weights_request_frame(PartRequest{part.file, part.offset, part.length})));
  // An answered request says that both connections, which were made before it, are served.
  REQUIRE(busy.events->frame());
  giver.close_server();
  CHECK(idle.events->cause() == "closed by the peer: no more weights are given");
  CHECK(busy.events->cause() == "closed by the peer: no more weights are given");
}

TEST_CASE("a model without files cannot be given", "[weights][bad-input]") {
  const auto config = read_model_config(fixture("models/tiny-llama/config.json"));
  REQUIRE_THROWS_AS(WeightsServer(make_random_model(config, 1, StorageFormat::f32)), InputError);
}

}  // namespace zerolock
