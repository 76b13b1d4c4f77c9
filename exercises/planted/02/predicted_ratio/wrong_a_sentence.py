# Fails: test_predicted_ratio
predicted_ratio = "about three times"
