# Fails: test_server_rate, test_server_other_fields
def create_app(engine):
    app = Flask("answer")

    @app.post("/generate")
    def generate():
        body = request.get_json()
        done = engine.generate(body["prompt_ids"], body["max_new_tokens"])
        answer = {
            "ids": list(done.ids),
            "prompt_tokens": done.prompt_tokens,
            "seconds": done.seconds,
        }
        new = len(done.ids)
        answer["new_tokens"] = new
        answer["tokens_per_second"] = (
            new / (done.seconds * 1000) if done.seconds else None
        )
        return answer

    return app
