#include "transport/weights/weights_server.hpp"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "tensors/files/model_manifest.hpp"
#include "tensors/files/model_parts.hpp"
#include "transport/weights/weights_request.hpp"

namespace zerolock {
namespace {

/// Brings bytes of a mapped file into memory, so that the network's thread need not wait for the disk.
void touch_pages(std::span<const std::byte> bytes) {
  constexpr std::size_t page_bytes = 4096;
  const volatile std::byte* data = bytes.data();
  for (std::size_t at = 0; at < bytes.size(); at += page_bytes) static_cast<void>(data[at]);
}

struct Client {
  std::shared_ptr<Connection> connection;
  std::deque<Frame> requests;  // not answered yet; the first one may be in work
  bool in_line = false;        // waits for its turn, or has it
};

/// A request to answer; no client: the thread has to end.
struct Turn {
  std::shared_ptr<Client> client;
  Frame request;
};

}  // namespace

/// What the thread and the connections' events share. Clients hold connections, and these hold their events,
/// which hold the worker: stop() breaks that circle.
class WeightsServer::Worker : public std::enable_shared_from_this<Worker> {
 public:
  explicit Worker(std::shared_ptr<const ModelParts> parts) : parts_(std::move(parts)) {}

  void begin() {
    thread_ = std::thread([this] { run(); });
  }

  void stop() {
    std::set<std::shared_ptr<Client>> clients;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      clients.swap(clients_);
      line_.clear();
    }
    changed_.notify_all();
    thread_.join();
    for (const auto& client : clients) client->connection->close("no more weights are given");
  }

  void add(const std::shared_ptr<Connection>& connection) {
    auto client = std::make_shared<Client>();
    client->connection = connection;
    {
      const std::lock_guard lock(mutex_);
      clients_.insert(client);
    }
    const std::weak_ptr<Client> weak = client;
    connection->start({[self = shared_from_this(), weak](Frame frame) {
                         if (const auto sender = weak.lock()) self->take(sender, std::move(frame));
                       },
                       [self = shared_from_this(), weak](const std::string&) {
                         if (const auto gone = weak.lock()) self->forget(gone);
                       }});
  }

 private:
  void take(const std::shared_ptr<Client>& client, Frame frame) {
    {
      const std::lock_guard lock(mutex_);
      if (client->requests.size() < weights_requests_max) {
        client->requests.push_back(std::move(frame));
        if (!std::exchange(client->in_line, true)) line_.push_back(client);
        changed_.notify_one();
        return;
      }
    }
    client->connection->close("more than " + std::to_string(weights_requests_max) +
                              " requests for weights wait for an answer");
    forget(client);
  }

  void forget(const std::shared_ptr<Client>& client) {
    const std::lock_guard lock(mutex_);
    clients_.erase(client);
  }

  void run() {
    while (true) {
      const Turn turn = next();
      if (!turn.client) return;
      if (!answer(*turn.client->connection, turn.request)) forget(turn.client);
      const std::lock_guard lock(mutex_);
      turn.client->requests.pop_front();
      turn.client->in_line = !turn.client->requests.empty();
      if (turn.client->in_line) line_.push_back(turn.client);
    }
  }

  /// Waits for a request.
  Turn next() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || !line_.empty(); });
      if (stopping_) return {};
      std::shared_ptr<Client> client = std::move(line_.front());
      line_.pop_front();
      if (!clients_.contains(client)) continue;
      // An empty frame keeps its place: the request counts until it is answered.
      Frame request = std::move(client->requests.front());
      return {std::move(client), std::move(request)};
    }
  }

  /// False if the connection cannot go on.
  bool answer(Connection& connection, const Frame& frame) {
    try {
      if (connection.send(answer_to(read_weights_request(frame.metadata)))) return true;
      connection.close("the answers that were asked for are not taken");
    } catch (const std::exception& error) {
      connection.send(weights_refusal_frame(error.what()));
      connection.close(error.what());
    }
    return false;
  }

  [[nodiscard]] Frame answer_to(const WeightsRequest& request) const {
    if (const auto* wanted = std::get_if<ManifestRequest>(&request)) {
      const auto text = std::make_shared<const std::string>(
          model_manifest_text(parts_->manifest(wanted->layers, wanted->embeds)));
      return weights_answer_frame({std::as_bytes(std::span(*text)), text});
    }
    const auto& part = std::get<PartRequest>(request);
    const std::span<const std::byte> bytes = parts_->read_part(part.file, part.offset, part.length);
    touch_pages(bytes);
    return weights_answer_frame({bytes, parts_});
  }

  const std::shared_ptr<const ModelParts> parts_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::set<std::shared_ptr<Client>> clients_;
  std::deque<std::shared_ptr<Client>> line_;
};

WeightsServer::WeightsServer(const std::shared_ptr<const ModelFiles>& model) {
  auto parts = std::make_shared<const ModelParts>(model);
  // Else the first receiver would wait for it without a sign of progress.
  static_cast<void>(model->content_hash());
  worker_ = std::make_shared<Worker>(std::move(parts));
  worker_->begin();
}

WeightsServer::~WeightsServer() {
  worker_->stop();
}

ConnectionOptions WeightsServer::options() const {
  ConnectionOptions options;
  options.bounds.allow(FrameType::request, weights_request_bytes_max);
  options.send_queue_bytes = model_manifest_text_bytes_max +
                             weights_requests_max * (model_part_bytes_max + weights_answer_bytes_max);
  return options;
}

void WeightsServer::serve(const std::shared_ptr<Connection>& connection) {
  worker_->add(connection);
}

}  // namespace zerolock
